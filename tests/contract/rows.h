/* rows.h: every allocator, over every source that makes sense, plain, checked and hardened: a row
 * each, and what the suite's tests of a row have in common.
 */
#ifndef LOAM_TESTS_CONTRACT_ROWS_H
#define LOAM_TESTS_CONTRACT_ROWS_H

#include "contract.h"

extern "C" {
#include "family/family.h"
}

#include <ostream>

namespace contract {

enum class Mode { Plain, Check, Harden };

struct Row {
    const Kind *kind;
    SourceKind source;
    Mode mode;
};

inline std::string row_name(const Row &row) {
    return std::string(row.kind->name) + "_" + name_of(row.source) +
           (row.mode == Mode::Check    ? "_check"
            : row.mode == Mode::Harden ? "_harden"
                                       : "");
}
inline std::ostream &operator<<(std::ostream &out, const Row &row) { return out << row_name(row); }

inline unsigned flags_of(Mode mode) {
    return mode == Mode::Check ? LOAM_CHECK : mode == Mode::Harden ? LOAM_HARDEN : 0;
}

/* wanted: tells which. */
template <typename Wanted> std::vector<Row> rows(Wanted wanted) {
    std::vector<Row> all;
    for (const Kind &kind : kinds()) {
        for (SourceKind source : {SourceKind::Buffer, SourceKind::Heap, SourceKind::Pages,
                                  SourceKind::Reserve, SourceKind::Limit, SourceKind::Strict}) {
            bool contiguous = source == SourceKind::Buffer || source == SourceKind::Reserve;
            if ((kind.can & kContiguous) != 0 && !contiguous) continue;
            for (Mode mode : {Mode::Plain, Mode::Check, Mode::Harden}) {
                if (mode == Mode::Harden && (kind.can & kHarden) == 0) continue;
                Row row = {&kind, source, mode};
                if (wanted(row)) all.push_back(row);
            }
        }
    }
    return all;
}
inline std::vector<Row> rows() {
    return rows([](const Row &) { return true; });
}
inline bool has_end(const Row &row) {
    return row.source == SourceKind::Buffer || row.source == SourceKind::Limit ||
           row.source == SourceKind::Reserve || (row.kind->can & kFixed) != 0;
}

constexpr size_t kSourceBytes = size_t{4} << 20; /* of those that have an end */

struct Set {
    Set(const Row &row, const char *name, size_t bytes = kSourceBytes)
        : source(row.source, bytes),
          a(row.kind->make(source.get(), bytes, flags_of(row.mode), name)) {}
    CountedSource source;
    std::unique_ptr<Allocator> a;
};

inline bool is_checked(const Row &row) { return row.mode == Mode::Check || LOAM_DEBUG; }

inline size_t size_for(const Kind &kind, Random &random) {
    if ((kind.can & kAnySize) == 0) return kind.bytes;
    size_t of = random.below(100), bytes;
    if (of < 80) {
        bytes = random.below(300);
    } else if (of < 98) {
        bytes = random.below(5000);
    } else {
        bytes = random.below(150000);
    }
    return kind.bytes != 0 && bytes > kind.bytes ? kind.bytes : bytes;
}

class PerRow : public testing::TestWithParam<Row> {
  protected:
    static const Kind &kind() { return *GetParam().kind; }
    static bool can(unsigned what) { return (kind().can & what) != 0; }
    static bool checked() { return is_checked(GetParam()); }

    static size_t size(Random &random) { return size_for(kind(), random); }
    /* One that is neither small nor large. */
    static size_t some_size() { return can(kAnySize) ? 40 : kind().bytes; }
};

#define INSTANTIATE(Suite, ...) \
    INSTANTIATE_TEST_SUITE_P(All, Suite, testing::ValuesIn(rows(__VA_ARGS__)), \
                             [](const auto &info) { return row_name(info.param); })

} // namespace contract

#endif
