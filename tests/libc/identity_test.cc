/* identity_test.cc: the allocator of this very process is loam.
 *
 * Every other test of this folder would pass on the C library's own malloc as well, so this one
 * proves that each name of the surface resolves to an object that also exports loam_version.
 */
#include "libc_test.h"

namespace {

using libc_test::symbol;

std::string object_of(void *address) {
    Dl_info info;
    if (address == nullptr || dladdr(address, &info) == 0) return "(nowhere)";
    return info.dli_fname;
}

class Identity : public testing::TestWithParam<const char *> {};

TEST_P(Identity, ResolvesToLoam) {
    void *version = dlsym(RTLD_DEFAULT, "loam_version");
    ASSERT_NE(version, nullptr) << "loam is not in this process";
    void *function = dlsym(RTLD_DEFAULT, GetParam());
    ASSERT_NE(function, nullptr) << GetParam() << " is not exported";
    EXPECT_EQ(object_of(function), object_of(version));
}

INSTANTIATE_TEST_SUITE_P(Libc, Identity,
                         testing::Values("malloc", "calloc", "realloc", "reallocarray", "free",
                                         "cfree", "free_sized", "free_aligned_sized",
                                         "aligned_alloc", "memalign", "posix_memalign", "valloc",
                                         "pvalloc", "malloc_usable_size", "mallinfo", "mallinfo2",
                                         "malloc_trim", "mallopt", "malloc_stats", "malloc_info"));

/* new, new[]: plain, nothrow, aligned, aligned nothrow; delete the same and sized. */
INSTANTIATE_TEST_SUITE_P(
    Cxx, Identity,
    testing::Values("_Znwm", "_Znam", "_ZnwmRKSt9nothrow_t", "_ZnamRKSt9nothrow_t",
                    "_ZnwmSt11align_val_t", "_ZnamSt11align_val_t",
                    "_ZnwmSt11align_val_tRKSt9nothrow_t", "_ZnamSt11align_val_tRKSt9nothrow_t",
                    "_ZdlPv", "_ZdaPv", "_ZdlPvm", "_ZdaPvm", "_ZdlPvRKSt9nothrow_t",
                    "_ZdaPvRKSt9nothrow_t", "_ZdlPvSt11align_val_t", "_ZdaPvSt11align_val_t",
                    "_ZdlPvmSt11align_val_t", "_ZdaPvmSt11align_val_t",
                    "_ZdlPvSt11align_val_tRKSt9nothrow_t", "_ZdaPvSt11align_val_tRKSt9nothrow_t"));

TEST(IdentityOfVersion, IsPositive) {
    auto version = symbol<int()>("loam_version");
    ASSERT_NE(version, nullptr);
    EXPECT_GT(version(), 0);
}

} // namespace
