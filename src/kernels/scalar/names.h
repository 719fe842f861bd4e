/* The scalar sources are compiled twice: here for the baseline (fmaf may be a library call), and by
 * kernels/scalar_fma with the FMA and AVX2 instructions, under another suffix. */
#ifndef RDI_SCALAR_NAMES_H
#define RDI_SCALAR_NAMES_H

#ifndef RDI_SUFFIX
#define RDI_SUFFIX scalar
#endif
#define RDI_PASTE_(a, b) a##_##b
#define RDI_PASTE(a, b)  RDI_PASTE_(a, b)
#define RDI_NAME(slot)   RDI_PASTE(rdi_##slot, RDI_SUFFIX)

#endif
