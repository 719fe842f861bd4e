/* That a written file is on the disk before it gets its name, and its name after. fsync and rename of
 * this program are its own: the linker takes them before the C library's. */
#define _GNU_SOURCE
#include "unit.h"
#include "io/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What happened, in order: 'f' a regular file was synced, 'd' a directory was, 'r' a rename. */
static char events[16];
static size_t event_count;
static char failing; /* the event that fails */

static int happened(char event) {
  if (event_count < sizeof events - 1) events[event_count++] = event;
  if (event != failing) return 0;
  errno = EIO;
  return -1;
}

int fsync(int fd) {
  struct stat st;
  if (fstat(fd, &st) != 0) return -1;
  if (happened(S_ISDIR(st.st_mode) ? 'd' : 'f') != 0) return -1;
  return (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to) {
  if (happened('r') != 0) return -1;
  return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

static io_status write_one(char fails, float value, io_error *err) {
  io_file file = {0};
  io_tensor *t;
  assert_int_equal(io_file_add(&file, "x", io_dtype_of(RD_F32), 1, (int64_t[]){1}, &t, err), IO_OK);
  memcpy(t->data, &value, sizeof value);
  memset(events, 0, sizeof events);
  event_count = 0;
  failing = fails;
  io_status status = io_safetensors_write("durable/x.safetensors", &file, err);
  failing = 0;
  io_file_free(&file);
  return status;
}

static float value_of(void) {
  io_file file = {0};
  io_error err;
  float value;
  assert_int_equal(io_safetensors_read("durable/x.safetensors", &file, &err), IO_OK);
  memcpy(&value, file.tensors[0].data, sizeof value);
  io_file_free(&file);
  return value;
}

static void test_order(void **state) {
  (void)state;
  io_error err;
  assert_int_equal(write_one(0, 1, &err), IO_OK);
  assert_string_equal(events, "frd");
  assert_true(value_of() == 1);
}

/* Whatever fails, the older file keeps its bytes and no other is left. */
static void test_failures(void **state) {
  (void)state;
  io_error err;
  assert_int_equal(write_one(0, 1, &err), IO_OK);
  assert_int_equal(write_one('f', 2, &err), IO_SYSTEM);
  assert_string_equal(events, "f");
  assert_non_null(strstr(err.text, "cannot write: Input/output error"));
  assert_true(value_of() == 1);
  assert_int_equal(write_one('r', 3, &err), IO_SYSTEM);
  assert_string_equal(events, "fr");
  assert_true(value_of() == 1);
  /* Some file systems cannot sync a directory. */
  assert_int_equal(write_one('d', 4, &err), IO_OK);
  assert_string_equal(events, "frd");
  assert_true(value_of() == 4);
  assert_int_equal(unlink("durable/x.safetensors"), 0);
  assert_int_equal(rmdir("durable"), 0); /* it is empty */
}

/* A named pipe without a writer is refused, not waited for: the alarm ends a process that waits. */
static void test_pipe(void **state) {
  (void)state;
  io_file file = {0};
  io_error err;
  unlink("pipe");
  assert_int_equal(mkfifo("pipe", 0600), 0);
  alarm(20);
  assert_int_equal(io_safetensors_read("pipe", &file, &err), IO_BAD);
  assert_non_null(strstr(err.text, "pipe: not a regular file"));
  assert_int_equal(io_npy_read("pipe", "x", &file, &err), IO_BAD);
  assert_non_null(strstr(err.text, "pipe: not a regular file"));
  assert_int_equal(io_check_output("pipe", &err), IO_BAD);
  alarm(0);
  assert_int_equal(unlink("pipe"), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_order),
      cmocka_unit_test(test_failures),
      cmocka_unit_test(test_pipe),
  };
  if (mkdir("durable", 0777) != 0 && errno != EEXIST) return 1;
  unlink("durable/x.safetensors");
  return cmocka_run_group_tests(tests, NULL, NULL);
}
