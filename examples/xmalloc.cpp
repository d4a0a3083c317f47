/* xmalloc.cpp: a program that has been moved off the global heap by changing names
 * (loam/xallocator.h): classes by one macro in their base, strings and containers by another name,
 * C's malloc and free by xmalloc and xfree.
 *
 * A small tree of widgets is built, printed into a stream and taken down, three times. From the
 * second time on no new block is made: each request gets one that was freed before. It prints what
 * blocks there are, and exits 0 iff the second and the third round came out as the first and took
 * no memory.
 */
#include <loam/xallocator.hpp>

#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

namespace {

class Widget {
    XALLOCATOR /* for all that are derived from it, whatever their size */
        public : explicit Widget(loam::xstring name)
        : name_(std::move(name)) {}
    virtual ~Widget() = default;
    virtual void draw(loam::xostringstream &out) const { out << name_ << ' '; }

  private:
    loam::xstring name_;
};

class Label : public Widget {
  public:
    Label(loam::xstring name, const char *text)
        : Widget(std::move(name)), text_(static_cast<char *>(xmalloc(strlen(text) + 1))) {
        if (text_ == nullptr) throw std::bad_alloc();
        memcpy(text_, text, strlen(text) + 1);
    }
    Label(const Label &) = delete;
    Label &operator=(const Label &) = delete;
    ~Label() override { xfree(text_); }
    void draw(loam::xostringstream &out) const override {
        Widget::draw(out);
        out << '"' << text_ << "\" ";
    }

  private:
    char *text_;
};

class Panel : public Widget {
  public:
    using Widget::Widget;
    void add(std::unique_ptr<Widget> child) { children_.push_back(std::move(child)); }
    void draw(loam::xostringstream &out) const override {
        Widget::draw(out);
        out << "{ ";
        for (const auto &child : children_) child->draw(out);
        out << "} ";
    }

  private:
    loam::xlist<std::unique_ptr<Widget>> children_;
};

loam::xstring round_of(int panels, int labels) {
    Panel window("window");
    for (int i = 0; i < panels; i++) {
        auto panel = std::make_unique<Panel>(loam::xstring("panel"));
        for (int k = 0; k < labels; k++)
            panel->add(std::make_unique<Label>("label", k % 2 == 0 ? "yes" : "no, and at length"));
        window.add(std::move(panel));
    }
    loam::xostringstream out;
    window.draw(out);
    return out.str();
}

size_t held_bytes() {
    loam_usage usage;
    loam_blocks_usage(loam_xalloc_blocks(), &usage);
    return usage.held_bytes;
}

} // namespace

int main() {
    loam::xstring first = round_of(30, 40);
    bool same = round_of(30, 40) == first;
    size_t held = held_bytes(); // what was freed lately included, which checked blocks keep
    for (int i = 0; i < 2; i++) same = round_of(30, 40) == first && same;
    bool quiet = held_bytes() == held;
    xalloc_stats();
    printf("%zu characters drawn, %zu bytes held, %s\n", first.size(), held,
           same && quiet ? "the same each time" : "NOT the same each time");
    return same && quiet ? 0 : 1;
}
