#include "cpu/amx.h"

#if defined(RDI_EMULATE_AMX)

int rdi_amx_permit(void) { return 1; }

#elif defined(__x86_64__) && defined(__linux__)

#include <sys/syscall.h>
#include <unistd.h>

int rdi_amx_permit(void) {
  enum {
    REQUEST = 0x1023,
    TILE_DATA = 18
  }; /* ARCH_REQ_XCOMP_PERM of <asm/prctl.h>, from Linux 5.16 */
  return syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
}

#else

int rdi_amx_permit(void) { return 0; }

#endif
