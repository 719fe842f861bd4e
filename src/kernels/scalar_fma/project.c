/* The scalar source once more, compiled with the FMA and AVX2 instructions. */
#ifdef RDI_HAVE_SCALAR_FMA
#define RDI_SUFFIX scalar_fma
#include "kernels/scalar/project.c" /* NOLINT(bugprone-suspicious-include) */
#endif
