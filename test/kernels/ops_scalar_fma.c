#define OPS_NAME ops_scalar_fma
#include "ops_scalar.c" /* NOLINT(bugprone-suspicious-include) */
