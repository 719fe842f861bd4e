/* The permission that Linux wants asked for before a process may use AMX's tiles. */
#ifndef RDI_CPU_AMX_H
#define RDI_CPU_AMX_H

/* 1: this process may use tiles. The first call asks (exec.h says what that changes); the answer holds for
 * all threads and for children of fork. 0: the system refuses, as when a thread has an alternate signal stack
 * that would be too small. Emulated tiles: 1, and nothing is asked. Where there is no AMX: 0. */
int rdi_amx_permit(void);

#endif
