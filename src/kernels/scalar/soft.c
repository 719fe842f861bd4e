/* The scalar source once more with subnormals flushed in software, all slots: what a context runs where
 * the processor's own flushing is missing or another one (emulators). Elsewhere than on x86 the scalar
 * kernels are these already. */
#ifdef __SSE2__
#define RDI_SOFT
#define RDI_SUFFIX scalar_soft
#include "kernels/scalar/commit.c"  /* NOLINT(bugprone-suspicious-include) */
#include "kernels/scalar/convert.c" /* NOLINT(bugprone-suspicious-include) */
#include "kernels/scalar/prep.c"    /* NOLINT(bugprone-suspicious-include) */
#include "kernels/scalar/project.c" /* NOLINT(bugprone-suspicious-include) */
#include "kernels/scalar/rows.c"    /* NOLINT(bugprone-suspicious-include) */
#endif
