/* The specification, in plain loops, for tests and the tool; never linked into the library.
 *
 * Two arithmetics, written apart from each other and from the kernels:
 *   C1   FP32, the bits of docs/NUMERICS.md, subnormals flushed (c1.c)
 *   F64  double everywhere, the textbook order of the equations (f64.c)
 * and three levels: one token of one head, the verbs, the named operators. Results are dense double
 * arrays owned by the caller (a float is exact in them); an element that the library would not
 * write is not written here either. Arguments are trusted: the library checks them, the
 * specification does not. Functions that return int give 0, or -1 when memory ran out.
 */
#ifndef RDR_REF_H
#define RDR_REF_H

#include "redelta/core.h"
#include "redelta/operators.h"

typedef enum rdr_mode {
  RDR_C1 = 1,     /* the bits the library must return (EXACT)                                 */
  RDR_F64 = 2,    /* the double oracle                                                        */
  RDR_F64_C1 = 3, /* a double recurrence fed C1's own f32 a, k, q and beta (stability set P9) */
  RDR_ROUND = 16  /* added: outputs, states and records pass through their 16-bit types       */
} rdr_mode;

/* ---------------------------------------------------------------- 16-bit types ---------------- */

float rdr_f32_of(uint16_t bits, rd_dtype dtype); /* RD_F16 or RD_BF16 */
uint16_t rdr_16_of(float x, rd_dtype dtype);     /* nearest even; NaN to a quiet NaN */
double rdr_round(double x, rd_dtype dtype);      /* through f32 into the type and back */
double rdr_load(const void *data, rd_dtype dtype, int64_t i); /* element i, floats or integers */
void rdr_dense(const rd_tensor *t, double *dst); /* a strided float view, packed; absent: nothing */
int64_t rdr_elements(const rd_tensor *t);        /* 0 when absent */

/* ---------------------------------------------------------------- one token of one head ------- */

typedef struct rdr_choices {
  rd_gate gate;
  rd_gate_axis axis;
  rd_beta beta;
  int32_t beta_times;
  int32_t l2norm;
  double eps, scale, lower_bound; /* C1 rounds each to f32 first */
} rdr_choices;

float rdr_c1_exp(float x);
float rdr_c1_sig(float x);
float rdr_c1_softplus(float x);
float rdr_c1_eA(float A_log);
float rdr_c1_dot(const float *a, const float *b, int64_t K);
float rdr_w1(const uint16_t *x, const uint16_t *w, int64_t K); /* bf16 bits; the order W1 */

/* q, k [K]; g and dt [K] or [1] by axis (not read where the gate has none) to k, a, q [K] and beta.
 */
void rdr_c1_operands(const rdr_choices *c, int64_t K, const float *q, const float *k,
                     const float *g, const float *dt, float A_log, float beta, float *k_out,
                     float *a_out, float *q_out, float *beta_out);
/* kt = a k, qt = a q, kq = dot(k, q) */
void rdr_c1_derive(int64_t K, const float *k, const float *a, const float *q, float *kt, float *qt,
                   float *kq);
/* One token on S [V][K]; u, o [V]. */
void rdr_c1_step(float *S, int64_t K, int64_t V, const float *k, const float *a, const float *kt,
                 const float *qt, float kq, float beta, const float *v, float *u, float *o);
void rdr_c1_commit(float *S, int64_t K, int64_t V, const float *u, const float *k, const float *a);

void rdr_f64_operands(const rdr_choices *c, int64_t K, const float *q, const float *k,
                      const float *g, const float *dt, double A_log, double beta, double *k_out,
                      double *a_out, double *q_out, double *beta_out);
/* One token on the transposed state St [K][V]. */
void rdr_f64_step(double *St, int64_t K, int64_t V, const double *k, const double *a,
                  const double *q, double beta, const float *v, double *u, double *o);
void rdr_f64_commit(double *St, int64_t K, int64_t V, const double *u, const double *k,
                    const double *a);

/* ---------------------------------------------------------------- verbs ----------------------- */
/* As in core.h, with the same structs as input, draft trees too (each root path is walked from the
 * start, whatever it shares with others). States come out per sequence, [B,Hv,V,K], whatever
 * the pool's layout and slots; a pad sequence's part is not written. Any result may be NULL. */

typedef struct rdr_results {
  double *out;           /* dense in the shape of act->out */
  double *state;         /* [B,Hv,V,K]: after the last token */
  double *snapshots;     /* [B,T,Hv,V,K] or packed [T,Hv,V,K]: after each token */
  double *u, *k, *decay; /* [B,C,Hv,V], [B,C,Hk,K], [B,C,Hv,K] or [B,C,Hv] */
  int64_t C;
} rdr_results;

/* A sequence that has the pad slot in one pool given as both `initial` and `final` is a pad row. */
int rdr_prefill(int mode, const rd_problem *p, const rd_sequences *seq, const rd_activations *act,
                const rd_slots *initial, const rd_slots *final, const rdr_results *res);
int rdr_decode(int mode, const rd_problem *p, const rd_sequences *seq, const rd_activations *act,
               const rd_slots *state, const rdr_results *res);
int rdr_verify(int mode, const rd_problem *p, const rd_sequences *seq, const rd_activations *act,
               const rd_slots *checkpoint, const rdr_results *res);
/* commit and materialize: res->state only. */
int rdr_commit(int mode, const rd_problem *p, const rd_records *records, const rd_tensor *accepted,
               const rd_slots *from, const rdr_results *res);
/* res->state: what the commit leaves; out and records: of the verify that follows. */
int rdr_commit_verify(int mode, const rd_problem *p, const rd_records *previous,
                      const rd_tensor *accepted, const rd_sequences *seq, const rd_activations *act,
                      const rd_slots *state, const rdr_results *res);

/* ---------------------------------------------------------------- named operators ------------- */
/* Results are dense in the shape of the operator's own tensor of that name. */

int rdr_chunk_gated_delta_rule(int mode, const rd_chunk_gated_delta_rule_params *p, double *out,
                               double *final_state);
int rdr_fused_recurrent_kda_replayssm(int mode, const rd_fused_recurrent_kda_replayssm_params *p,
                                      double *out, double *replay_u, double *replay_k,
                                      double *replay_decay);
int rdr_commit_recurrent_kda_replayssm(int mode, const rd_commit_recurrent_kda_replayssm_params *p,
                                       double *recurrent_state);
/* cu_seqlens: what the metadata was made from, or NULL. */
int rdr_flash_kda(int mode, const rd_flash_kda_params *p, const rd_tensor *cu_seqlens, double *out,
                  double *final_state);
/* state: the whole pool afterwards. */
int rdr_fused_recurrent_kda(int mode, const rd_fused_recurrent_kda_params *p, double *state,
                            double *out);

#endif
