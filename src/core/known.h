/* The known-answer check of the arithmetic that every context makes first. */
#ifndef RDI_CORE_KNOWN_H
#define RDI_CORE_KNOWN_H

typedef enum rdi_answers {
  RDI_ANSWERS_WRONG, /* contraction, excess precision, another rounding, order of summation or fma */
  RDI_ANSWERS_UNFLUSHED, /* all of that is right, but subnormals are not flushed as C2 says: the kernels
                            that flush in software are needed */
  RDI_ANSWERS_RIGHT
} rdi_answers;

/* What this build, this machine and the FP environment in force give on inputs that each of these
 * would change. Built with RDI_ASSUME_FLUSH it never looks at subnormals: for tools that do not obey
 * the environment and are not there for the bits (Valgrind, instruction counts). */
rdi_answers rdi_known_answers(void);

#endif
