/* The known-answer check of the arithmetic that every context makes first. */
#ifndef RDI_CORE_KNOWN_H
#define RDI_CORE_KNOWN_H

/* 1 when this build and this machine give the bits of C1 on inputs that contraction, excess
 * precision, another order of summation, flushed subnormals or an inexact fma would change. */
int rdi_known_answers(void);

#endif
