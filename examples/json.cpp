/* json.cpp: a recursive-descent JSON parser on the thread's frame stack, and the same on malloc.
 *
 *     json [file] [--malloc | --stack] [--print]
 *
 * Without a file it makes a document of some megabytes; without a choice it does both and compares
 * them. The document lives in a frame: parsing it is a few hundred thousand additions, and
 * forgetting it one pop. Strings are taken at their full length and shrunk when their escapes are
 * known, which is free for the last object of a stack. The walk over all values has a scope at each
 * level for the path that it builds. What differs between the two is the class Memory.
 */
#include <loam/stack.hpp>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <malloc.h>
#include <string>
#include <string_view>

namespace {

/* ---- Where memory comes from ---- */

struct OnStack {
    static constexpr const char *name = "frame stack";
    struct Scope {
        void begin() { frame = loam_stack_push(loam_thread_stack()); }
        void end() { loam_stack_pop(loam_thread_stack(), frame); }
        loam_stack_frame frame;
    };
    template <typename T> static T *make() { return LOAM_SCOPE_NEW(T); }
    static char *text(size_t bytes) { return LOAM_SCOPE_ARRAY(char, bytes); }
    static char *shrink(char *p, size_t old_bytes, size_t bytes) {
        return static_cast<char *>(loam_scope_realloc(p, old_bytes, bytes));
    }
    static void drop(void *) {} /* its frame does that */
    static constexpr bool frees = false;
};

struct OnMalloc {
    static constexpr const char *name = "malloc";
    struct Scope {
        void begin() {}
        void end() {}
    };
    template <typename T> static T *make() { return static_cast<T *>(malloc(sizeof(T))); }
    static char *text(size_t bytes) { return static_cast<char *>(malloc(bytes)); }
    static char *shrink(char *p, size_t, size_t bytes) {
        return static_cast<char *>(realloc(p, bytes));
    }
    static void drop(void *p) { free(p); }
    static constexpr bool frees = true;
};

/* ---- Values ---- */

enum class Type : unsigned char { Null, False, True, Number, String, Array, Object };

struct Value {
    Value *next;          /* in its array or object */
    std::string_view key; /* in an object; the characters of both are memory of their own */
    Type type;
    union {
        double number;
        std::string_view text;
        Value *first;
    };
    Value() : next(nullptr), type(Type::Null), first(nullptr) {}
};

/* ---- The parser ---- */

template <typename Memory> class Parser {
  public:
    /* text must end with a zero, which is not part of it. */
    explicit Parser(std::string_view text)
        : at_(text.data()), end_(at_ + text.size()), start_(at_) {}

    Value *document() {
        Value *value = parse(0);
        if (value == nullptr) return nullptr;
        space();
        if (at_ == end_) return value;
        return refuse("something follows the document"), forget(value);
    }
    /* "line:column: what", after NULL. */
    std::string error() const {
        auto line = 1 + std::count(start_, at_, '\n');
        const char *begin = at_;
        while (begin > start_ && begin[-1] != '\n') begin--;
        return std::to_string(line) + ":" + std::to_string(at_ - begin + 1) + ": " + what_;
    }

  private:
    static constexpr int kDeepest = 1000;

    std::nullptr_t refuse(const char *what) {
        if (what_[0] == '\0') what_ = what;
        return nullptr;
    }
    void space() {
        while (at_ < end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r')) at_++;
    }
    bool take(char c) {
        space();
        if (at_ == end_ || *at_ != c) return false;
        at_++;
        return true;
    }
    Value *made(Type type) {
        void *p = Memory::template make<Value>();
        if (p == nullptr) return refuse("no memory");
        auto *value = new (p) Value;
        value->type = type;
        return value;
    }

    Value *parse(int depth) {
        space();
        if (depth > kDeepest) return refuse("nested too deeply");
        if (at_ == end_) return refuse("a value is missing");
        switch (*at_) {
        case 'n': return word("null", Type::Null);
        case 'f': return word("false", Type::False);
        case 't': return word("true", Type::True);
        case '"': return string();
        case '[': return array(depth);
        case '{': return object(depth);
        default: return number();
        }
    }
    Value *word(std::string_view word, Type type) {
        if (static_cast<size_t>(end_ - at_) < word.size() ||
            std::string_view(at_, word.size()) != word)
            return refuse("no such word");
        at_ += word.size();
        return made(type);
    }
    bool digits() {
        if (!isdigit(static_cast<unsigned char>(*at_))) return refuse("a digit is missing"), false;
        while (isdigit(static_cast<unsigned char>(*at_))) at_++;
        return true;
    }
    Value *number() {
        const char *begin = at_;
        if (*at_ == '-') at_++;
        if (*at_ == '0')
            at_++;
        else if (!isdigit(static_cast<unsigned char>(*at_)))
            return refuse("a value is missing");
        else if (!digits())
            return nullptr;
        if (*at_ == '.' && (at_++, !digits())) return nullptr;
        if (*at_ == 'e' || *at_ == 'E') {
            at_++;
            if (*at_ == '+' || *at_ == '-') at_++;
            if (!digits()) return nullptr;
        }
        Value *value = made(Type::Number);
        if (value != nullptr) value->number = strtod(begin, nullptr);
        return value;
    }

    /* Four hexadecimal digits. */
    bool unit(unsigned *code) {
        *code = 0;
        for (int i = 0; i < 4; i++, at_++) {
            auto c = static_cast<unsigned char>(*at_);
            if (!isxdigit(c)) return refuse("a hexadecimal digit is missing"), false;
            *code = *code * 16 + static_cast<unsigned>(isdigit(c) ? c - '0' : (c | 32) - 'a' + 10);
        }
        return true;
    }
    static char *put_utf8(char *to, unsigned code) {
        auto more = [&](int shift) { *to++ = static_cast<char>(0x80 | (code >> shift & 63)); };
        if (code < 0x80) {
            *to++ = static_cast<char>(code);
        } else if (code < 0x800) {
            *to++ = static_cast<char>(0xc0 | code >> 6);
            more(0);
        } else if (code < 0x10000) {
            *to++ = static_cast<char>(0xe0 | code >> 12);
            more(6), more(0);
        } else {
            *to++ = static_cast<char>(0xf0 | code >> 18);
            more(12), more(6), more(0);
        }
        return to;
    }
    bool escape(char **to) {
        static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
        unsigned code, low;
        const char *found = *at_ != '\0' ? strchr(from, *at_) : nullptr;
        if (found != nullptr) {
            *(*to)++ = into[found - from];
            at_++;
            return true;
        }
        if (*at_ != 'u') return refuse("no such escape"), false;
        at_++;
        if (!unit(&code)) return false;
        if (code >= 0xdc00 && code < 0xe000) return refuse("half of a pair"), false;
        if (code >= 0xd800 && code < 0xdc00) {
            if (at_[0] != '\\' || at_[1] != 'u') return refuse("half of a pair"), false;
            at_ += 2;
            if (!unit(&low)) return false;
            if (low < 0xdc00 || low >= 0xe000) return refuse("half of a pair"), false;
            code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        }
        *to = put_utf8(*to, code);
        return true;
    }
    /* At the quotation mark. No escape is shorter than what it stands for. */
    bool characters(std::string_view *text) {
        const char *close = ++at_;
        while (close < end_ && *close != '"') close += *close == '\\' && close + 1 < end_ ? 2 : 1;
        auto most = static_cast<size_t>(close - at_);
        char *begin = Memory::text(most + 1), *to = begin;
        if (begin == nullptr) return refuse("no memory"), false;
        while (at_ < end_ && *at_ != '"') {
            if (static_cast<unsigned char>(*at_) < ' ') break;
            if (*at_ != '\\') {
                *to++ = *at_++;
                continue;
            }
            at_++;
            if (!escape(&to)) return Memory::drop(begin), false;
        }
        if (at_ == end_ || *at_ != '"') {
            Memory::drop(begin);
            return refuse(at_ == end_ ? "a string does not end"
                                      : "a control character in a string"),
                   false;
        }
        at_++;
        auto bytes = static_cast<size_t>(to - begin);
        if (bytes != most) begin = Memory::shrink(begin, most + 1, bytes + 1);
        begin[bytes] = '\0';
        *text = {begin, bytes};
        return true;
    }
    Value *string() {
        std::string_view text;
        if (!characters(&text)) return nullptr;
        Value *value = made(Type::String);
        if (value != nullptr) value->text = text;
        return value;
    }
    Value *array(int depth) {
        Value *array = made(Type::Array), **link = array != nullptr ? &array->first : nullptr;
        at_++;
        if (link == nullptr || take(']')) return array;
        do {
            Value *value = parse(depth + 1);
            if (value == nullptr) return forget(array);
            *link = value;
            link = &value->next;
        } while (take(','));
        return take(']') ? array : (refuse("a comma or ] is missing"), forget(array));
    }
    Value *object(int depth) {
        Value *object = made(Type::Object), **link = object != nullptr ? &object->first : nullptr;
        at_++;
        if (link == nullptr || take('}')) return object;
        do {
            std::string_view key;
            space();
            if (at_ == end_ || *at_ != '"') return refuse("a key is missing"), forget(object);
            if (!characters(&key)) return forget(object);
            Value *value = take(':') ? parse(depth + 1) : refuse("a colon is missing");
            if (value == nullptr) {
                Memory::drop(const_cast<char *>(key.data()));
                return forget(object);
            }
            value->key = key;
            *link = value;
            link = &value->next;
        } while (take(','));
        return take('}') ? object : (refuse("a comma or } is missing"), forget(object));
    }

  public:
    /* Value by value, where nothing else does that. */
    static Value *forget(Value *value) {
        if (!Memory::frees || value == nullptr) return nullptr;
        if (value->type == Type::Array || value->type == Type::Object) {
            for (Value *child = value->first, *next; child != nullptr; child = next) {
                next = child->next;
                forget(child);
            }
        } else if (value->type == Type::String) {
            Memory::drop(const_cast<char *>(value->text.data()));
        }
        Memory::drop(const_cast<char *>(value->key.data()));
        Memory::drop(value);
        return nullptr;
    }

  private:
    const char *at_, *end_, *start_, *what_ = "";
};

/* ---- What is done with a document ---- */

void print_text(std::string_view text, std::string *to) {
    char code[8];
    *to += '"';
    for (char c : text) {
        if (c == '"' || c == '\\') {
            *to += '\\';
            *to += c;
        } else if (static_cast<unsigned char>(c) < ' ') {
            snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
            *to += code;
        } else {
            *to += c;
        }
    }
    *to += '"';
}

void print(const Value *value, std::string *to) {
    static const char *const words[] = {"null", "false", "true"};
    char number[32];
    switch (value->type) {
    case Type::Number:
        snprintf(number, sizeof number, "%.17g", value->number);
        *to += number;
        break;
    case Type::String: print_text(value->text, to); break;
    case Type::Array:
    case Type::Object: {
        bool keys = value->type == Type::Object;
        *to += keys ? '{' : '[';
        for (const Value *child = value->first; child != nullptr; child = child->next) {
            if (child != value->first) *to += ',';
            if (keys) print_text(child->key, to), *to += ':';
            print(child, to);
        }
        *to += keys ? '}' : ']';
        break;
    }
    default: *to += words[static_cast<int>(value->type)];
    }
}

/* A number for the paths and types of all values: "$.orders[3].price". */
struct Walk {
    uint64_t hash = 14695981039346656037u;
    size_t values = 0;
    void add(std::string_view text) {
        for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
    }
};

template <typename Memory>
void walk(const Value *value, const char *path, size_t path_bytes, Walk *walked) {
    walked->values++;
    walked->add({path, path_bytes});
    if (value->type != Type::Array && value->type != Type::Object) return;
    bool keys = value->type == Type::Object;
    size_t index = 0;
    for (const Value *child = value->first; child != nullptr; child = child->next, index++) {
        typename Memory::Scope scope; /* the child's path, and all below it */
        scope.begin();
        size_t most = path_bytes + child->key.size() + 24;
        char *longer = Memory::text(most), *end = longer + path_bytes;
        if (longer == nullptr) exit(1);
        memcpy(longer, path, path_bytes);
        if (keys) {
            *end++ = '.';
            if (!child->key.empty()) memcpy(end, child->key.data(), child->key.size());
            end += child->key.size();
        } else {
            end += snprintf(end, 24, "[%zu]", index);
        }
        walk<Memory>(child, longer, static_cast<size_t>(end - longer), walked);
        Memory::drop(longer);
        scope.end();
    }
}

/* ---- Runs ---- */

struct Result {
    double parsed = 1e9, walked = 1e9, ended = 1e9; /* seconds, the best of the rounds */
    size_t bytes = 0;
    Walk walk;
    std::string printed;
};

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

/* What the heap has handed out, with what it adds to each object; or what the stack holds. */
template <typename Memory> size_t held() {
    if (Memory::frees) return mallinfo2().uordblks + mallinfo2().hblkhd;
    loam_usage usage;
    loam_stack_usage(loam_thread_stack(), &usage);
    return usage.held_bytes;
}

template <typename Memory> bool run(std::string_view text, Result *best, bool print_it) {
    for (int round = 0; round < 3; round++) { /* others use this machine */
        size_t before = Memory::frees ? held<Memory>() : 0;
        double start = now();
        typename Memory::Scope scope;
        scope.begin();
        Parser<Memory> parser(text);
        Value *document = parser.document();
        if (document == nullptr) {
            fprintf(stderr, "json: %s\n", parser.error().c_str());
            scope.end();
            return false;
        }
        double parsed = now();
        Walk walked;
        walk<Memory>(document, "$", 1, &walked);
        double done = now();
        best->bytes = std::max(best->bytes, held<Memory>() - before);
        if (print_it && round == 0) print(document, &best->printed);
        double again = now();
        Parser<Memory>::forget(document);
        scope.end();
        best->parsed = std::min(best->parsed, parsed - start);
        best->walked = std::min(best->walked, done - parsed);
        best->ended = std::min(best->ended, now() - again);
        best->walk = walked;
    }
    printf("%-12s parse %6.1f ms, walk %6.1f ms, end %6.2f ms, %6.1f MiB, %zu values\n",
           Memory::name, best->parsed * 1e3, best->walked * 1e3, best->ended * 1e3,
           static_cast<double>(best->bytes) / 1048576, best->walk.values);
    return true;
}

/* What must be refused, and where. */
bool refuses_what_it_must() {
    static const char *const wrong[][2] = {
        {"", "1:1: a value is missing"},
        {"[1, 2", "1:6: a comma or ] is missing"},
        {"{\"a\": 1,\n \"b\" 2}", "2:6: a colon is missing"},
        {"{\"a\": 1,\n}", "2:1: a key is missing"},
        {"[1] 2", "1:5: something follows the document"},
        {"[\"a\\x\"]", "1:5: no such escape"},
        {"[\"a\nb\"]", "1:4: a control character in a string"},
        {"[\"abc", "1:6: a string does not end"},
        {"[\"\\ud800x\"]", "1:9: half of a pair"},
        {"[01]", "1:3: a comma or ] is missing"},
        {"[1.]", "1:4: a digit is missing"},
        {"\n\n [nul]", "3:3: no such word"},
    };
    bool good = true;
    for (auto &one : wrong) {
        loam::scope scope;
        Parser<OnStack> parser(one[0]);
        Parser<OnMalloc> twin(one[0]);
        if (parser.document() != nullptr || parser.error() != one[1] ||
            twin.document() != nullptr || twin.error() != one[1]) {
            fprintf(stderr, "json: %s\nwas refused by: %s\n", one[0], parser.error().c_str());
            good = false;
        }
    }
    return good;
}

std::string made_document(size_t bytes) {
    std::string text = "{\"orders\": [\n";
    uint64_t state = 1;
    auto below = [&](unsigned limit) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        return static_cast<unsigned>((state >> 33) % limit);
    };
    char part[400];
    for (unsigned number = 0; text.size() < bytes; number++) {
        snprintf(
            part, sizeof part,
            "%s  {\"number\": %u, \"price\": %u.%02u, \"rate\": -%ue-3, \"open\": %s, "
            "\"note\": \"caf\\u00e9 \\\"%u\\\"\\n\\ud83d\\ude00\", \"to\": null,\n   \"lines\": [",
            number == 0 ? "" : ",\n", number, below(10000), below(100), 1 + below(1000),
            below(2) != 0 ? "true" : "false", below(1000000));
        text += part;
        for (unsigned i = 0, lines = below(8); i < lines; i++) {
            snprintf(part, sizeof part, "%s{\"item\": \"part %u of the catalogue\", \"count\": %u}",
                     i == 0 ? "" : ", ", below(5000), 1 + below(50));
            text += part;
        }
        text += "]}";
    }
    return text + "\n]}\n";
}

} // namespace

int main(int argc, char **argv) {
    bool on_malloc = true, on_stack = true, printed = false;
    const char *file = nullptr;
    for (int i = 1; i < argc; i++) {
        std::string_view argument = argv[i];
        if (argument == "--malloc")
            on_stack = false;
        else if (argument == "--stack")
            on_malloc = false;
        else if (argument == "--print")
            printed = true;
        else if (argument[0] != '-')
            file = argv[i];
        else
            return fprintf(stderr, "usage: json [file] [--malloc | --stack] [--print]\n"), 2;
    }
    std::string text = file == nullptr ? made_document(4 << 20) : "";
    if (file != nullptr) {
        std::ifstream in(file, std::ios::binary);
        if (!in) return fprintf(stderr, "json: %s cannot be read\n", file), 2;
        text.assign(std::istreambuf_iterator<char>(in), {});
    }
    Result heap, stack;
    if (!refuses_what_it_must()) return 1;
    bool both = on_malloc && on_stack;
    if (on_malloc && !run<OnMalloc>(text, &heap, both || printed)) return 1;
    if (on_stack && !run<OnStack>(text, &stack, both || printed)) return 1;
    const Result &result = on_stack ? stack : heap;
    if (printed) puts(result.printed.c_str());
    if (both) {
        Result again; /* what was printed is the same document */
        if (!run<OnStack>(heap.printed, &again, true)) return 1;
        if (heap.walk.hash != stack.walk.hash || heap.printed != stack.printed ||
            again.printed != heap.printed || again.walk.hash != heap.walk.hash) {
            fprintf(stderr, "json: the documents differ\n");
            return 1;
        }
        double times =
            (heap.parsed + heap.walked + heap.ended) / (stack.parsed + stack.walked + stack.ended);
        printf("parse, walk and end together: %.2f times as fast", times);
        if (heap.bytes != 0) /* a sanitizer's malloc does not say */
            printf(", %.2f times the memory",
                   static_cast<double>(stack.bytes) / static_cast<double>(heap.bytes));
        printf("\n");
    }
    return 0;
}
