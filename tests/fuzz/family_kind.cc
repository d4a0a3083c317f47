/* family_kind.cc: which allocator a harness of family_fuzz.cc is about; compiled once for each. */
extern const char *const fuzz_kind;
const char *const fuzz_kind = LOAM_FUZZ_KIND;
