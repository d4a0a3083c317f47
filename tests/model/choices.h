/* choices.h: where a random program takes its choices from: a seed, or the bytes of a fuzzer
 * (tests/fuzz).
 *
 * A seed never ends; bytes do, and so does the program that asks for them: over() is true then, and
 * every further choice is 0. A choice takes as few bytes as its limit needs, so that a byte changed
 * is a choice changed.
 */
#ifndef LOAM_TESTS_MODEL_CHOICES_H
#define LOAM_TESTS_MODEL_CHOICES_H

#include <cstddef>
#include <cstdint>

namespace model {

class Choices {
  public:
    explicit Choices(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u | 1) {}
    Choices(const uint8_t *bytes, size_t count) : next_(bytes), end_(bytes + count) {}

    /* A number below limit, which is not 0. */
    size_t below(size_t limit) {
        if (next_ != nullptr) return from_bytes(limit - 1) % limit;
        state_ ^= state_ << 13;
        state_ ^= state_ >> 7;
        state_ ^= state_ << 17;
        return static_cast<size_t>((state_ >> 11) % limit);
    }
    bool over() const { return next_ != nullptr && next_ == end_; }

  private:
    size_t from_bytes(size_t most) {
        size_t value = 0;
        for (unsigned shift = 0; most != 0; most >>= 8, shift += 8) {
            if (next_ != end_) value |= static_cast<size_t>(*next_++) << shift;
        }
        return value;
    }

    const uint8_t *next_ = nullptr, *end_ = nullptr;
    uint64_t state_ = 0;
};

} // namespace model

#endif
