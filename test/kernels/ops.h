/* The operations of one instruction set on 16 floats, for comparing with the rule (border.c). */
#ifndef RDT_OPS_H
#define RDT_OPS_H

typedef enum op { OP_ADD, OP_MUL, OP_FMA, OP_NFMA, OP_DIV, OP_SQRT, OP_SCALE, OPS } op;

/* OP_SCALE: a 2^b, b an integer. */
typedef void (*ops_fn)(op which, const float *a, const float *b, const float *c, float *out);

void ops_scalar(op which, const float *a, const float *b, const float *c, float *out);
void ops_scalar_fma(op which, const float *a, const float *b, const float *c, float *out);
void ops_avx2(op which, const float *a, const float *b, const float *c, float *out);
void ops_avx512(op which, const float *a, const float *b, const float *c, float *out);
void ops_neon(op which, const float *a, const float *b, const float *c, float *out);

#ifdef OPS_COLUMNS /* a file that has included <isa>/column.h */
static inline void ops_columns(op which, const float *a, const float *b, const float *c,
                               float *out) {
  const rdi_col x = c_load(a), y = c_load(b), z = c_load(c);
  switch (which) {
  case OP_ADD:
    c_store(out, c_add(x, y));
    break;
  case OP_MUL:
    c_store(out, c_mul(x, y));
    break;
  case OP_FMA:
    c_store(out, c_fma(x, y, z));
    break;
  case OP_NFMA:
    c_store(out, c_nfma(x, y, z));
    break;
  case OP_DIV:
    c_store(out, c_div(x, y));
    break;
  case OP_SQRT:
    c_store(out, c_sqrt(x));
    break;
  case OP_SCALE:
    c_store(out, c_pow2(x, y));
    break;
  case OPS:
    break;
  }
}
#endif

#endif
