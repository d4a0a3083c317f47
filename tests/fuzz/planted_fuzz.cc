/* planted_fuzz.cc: a harness with a fault: that run.py says so, and keeps the input, is tested with
 * it. */
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    if (count > 1 && bytes[0] == 'l' && bytes[1] == 'm') fuzz::expect("planted");
    return 0;
}
