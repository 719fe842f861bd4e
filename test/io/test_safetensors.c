/* The safetensors reader against hostile files, and the writer's promises. */
#include "hostile.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* The header text with its length in front, then `data` zero bytes. */
static image make(const char *header, size_t data) {
  image im = {.size = 8 + strlen(header) + data};
  assert_true(im.size <= sizeof im.bytes);
  im.bytes[0] = (unsigned char)(strlen(header) & 0xff);
  im.bytes[1] = (unsigned char)(strlen(header) >> 8);
  memcpy(im.bytes + 8, header, strlen(header));
  return im;
}

static void refuses(const char *header, size_t data, const char *said) {
  image im = make(header, data);
  must_refuse(io_safetensors_parse, &im, header, said);
}

static void accepts(const char *header, size_t data, size_t tensors) {
  image im = make(header, data);
  io_file file = {0};
  must_accept(io_safetensors_parse, &im, header, &file);
  assert_int_equal(file.count, tensors);
  io_file_free(&file);
}

#define A24 "\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}"

static void test_accepts(void **state) {
  (void)state;
  accepts("{}", 0, 0);
  accepts("{}   \n", 0, 0);
  accepts("{" A24 "}", 24, 1);
  accepts("{" A24 ",\"__metadata__\":{\"format\":\"pt\"}}", 24, 1);
  accepts("{\"b\":{\"dtype\":\"F16\",\"shape\":[3],\"data_offsets\":[24,30]}," A24 "}", 30, 2);
  accepts("{\"s\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]}}", 8, 1);
  accepts("{\"z\":{\"dtype\":\"F32\",\"shape\":[0,5],\"data_offsets\":[24,24]}," A24 "}", 24, 2);
  accepts("{\"u\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}", 3, 1);
  accepts("{\"\":{\"data_offsets\":[0,1],\"dtype\":\"BOOL\",\"shape\":[1]}}", 1, 1);
}

/* A type that is not known here: bytes under a name, with a shape that says nothing about them. */
static void test_unknown_types(void **state) {
  (void)state;
  image im =
      make("{\"w\":{\"dtype\":\"F4\",\"shape\":[3,2],\"data_offsets\":[24,27]}," A24 "}", 27);
  io_file file = {0};
  io_error err = {{0}};
  char text[64];
  rd_tensor view;
  double number;
  for (size_t i = 0; i < 3; i++) im.bytes[im.size - 3 + i] = (unsigned char)(7 + i);
  must_accept(io_safetensors_parse, &im, "F4", &file);
  io_tensor *w = io_file_find(&file, "w");
  assert_int_equal(w->bytes, 3);
  assert_memory_equal(w->data, "\7\10\11", 3);
  assert_int_equal(io_tensor_elements(w), 3);
  assert_int_equal(io_tensor_number(w, 0, &number), 0);
  io_tensor_describe(w, text, sizeof text);
  assert_string_equal(text, "F4 [3, 2]");
  io_tensor_coordinate(w, 2, text, sizeof text);
  assert_string_equal(text, "byte 2");
  assert_int_equal(io_tensor_view(w, &view, &err), IO_BAD);
  assert_non_null(strstr(err.text, "tensor 'w': no operator takes element type F4"));
  const io_dtype other = {.name = "F4"}, another = {.name = "F6"};
  assert_true(io_same_dtype(w->dtype, &other));
  assert_false(io_same_dtype(w->dtype, &another));
  assert_int_equal(io_file_add(&file, "v", w->dtype, 1, (int64_t[]){1}, NULL, &err), IO_BAD);
  io_file_free(&file);
  must_survive(io_safetensors_parse, &im);
  refuses("{\"a\":{\"dtype\":\"F4\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
          "overflows 64 bits");
  refuses("{\"a\":{\"dtype\":\"F4\",\"shape\":[1],\"data_offsets\":[0,5]}}", 4, "leave the file");
}

/* Every name is found, and no other, whatever the order they came in. */
static void test_index(void **state) {
  (void)state;
  io_file file = {0};
  io_index index;
  io_error err;
  char name[16];
  assert_int_equal(io_index_make(&file, &index, &err), IO_OK);
  assert_null(io_index_find(&index, "t1"));
  io_index_free(&index);
  for (int i = 0; i < 100; i++) {
    snprintf(name, sizeof name, "t%d", i * 37 % 100);
    assert_int_equal(io_file_add(&file, name, io_dtype_of(RD_F32), 1, (int64_t[]){i}, NULL, &err),
                     IO_OK);
  }
  assert_int_equal(io_index_make(&file, &index, &err), IO_OK);
  for (int i = 0; i < 100; i++) {
    snprintf(name, sizeof name, "t%d", i);
    io_tensor *t = io_index_find(&index, name);
    assert_non_null(t);
    assert_string_equal(t->name, name);
    strcat(name, "-");
    assert_null(io_index_find(&index, name));
  }
  assert_null(io_index_find(&index, ""));
  io_index_free(&index);
  io_file_free(&file);
}

static void test_refuses_json(void **state) {
  (void)state;
  refuses(" {}", 0, "does not start with '{'");
  refuses("[]", 0, "does not start with '{'");
  refuses("", 0, "does not start with '{'");
  refuses("{", 0, "not valid JSON");
  refuses("{}x", 0, "not valid JSON");
  refuses("{}{}", 0, "not valid JSON");
  refuses("{" A24 "," A24 "}", 24, "duplicate object key");
  refuses("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
          "duplicate object key");
  refuses("{\"a\":{\"dtype\":\"F32\",\"shape\":[NaN],\"data_offsets\":[0,4]}}", 4,
          "not valid JSON");
  refuses("{\"a\":{\"dtype\":\"F32\",\"shape\":[Infinity],\"data_offsets\":[0,4]}}", 4,
          "not valid JSON");
  refuses("{\"a\\u0000b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
          "not valid JSON");
  refuses("{\"\xff\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
          "not valid JSON");
  refuses("{'a':1}", 0, "not valid JSON");
}

static void test_refuses_members(void **state) {
  (void)state;
  refuses("{\"a\":7}", 0, "tensor 'a': not an object");
  refuses("{\"a\":null}", 0, "tensor 'a': not an object");
  refuses("{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "tensor 'a': dtype is missing");
  refuses("{\"a\":{\"dtype\":3,\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
          "tensor 'a': dtype is missing");
  refuses("{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "tensor 'a': shape is missing");
  refuses("{\"a\":{\"dtype\":\"F32\",\"shape\":1,\"data_offsets\":[0,4]}}", 4,
          "shape is missing or not");
  refuses("{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "tensor 'a': data_offsets is missing");
  refuses("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, "not a pair");
  refuses("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", 4, "not a pair");
  refuses("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4,
          "unknown member 'x'");
  refuses("{\"__metadata__\":[]}", 0, "__metadata__ is not an object");
  refuses("{\"__metadata__\":{\"n\":1}}", 0, "the value of 'n' is not a string");
}

static void test_refuses_numbers(void **state) {
  (void)state;
  refuses("{\"a\":{\"dtype\":\"F32\",\"shape\":[2.0],\"data_offsets\":[0,8]}}", 8,
          "not a whole number");
  refuses("{\"a\":{\"dtype\":\"F32\",\"shape\":[\"2\"],\"data_offsets\":[0,8]}}", 8,
          "not a whole number");
  refuses("{\"a\":{\"dtype\":\"F32\",\"shape\":[true],\"data_offsets\":[0,4]}}", 4,
          "not a whole number");
  refuses("{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4,
          "negative number (-1)");
  refuses("{\"a\":{\"dtype\":\"F32\",\"shape\":[-1,-1],\"data_offsets\":[0,4]}}", 4,
          "negative number");
  refuses("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", 4,
          "negative number (-4)");
  refuses("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,1e0]}}", 4,
          "not a whole number");
  refuses("{\"a\":{\"dtype\":\"F32\",\"shape\":[18446744073709551617],\"data_offsets\":[0,4]}}", 4,
          "not valid JSON");
  refuses("{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}}", 0,
          "overflows 64 bits");
  refuses("{\"a\":{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
          "overflows 64 bits");
  refuses("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4,
          "end before they begin");
  refuses("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,9223372036854775807]}}", 4,
          "leave the file, which has 4 bytes");
  refuses("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4,
          "need 8 bytes, data_offsets give 4");
  refuses("{\"a\":{\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[0,4]}}", 4, "need 2 bytes");
  refuses("{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
          "1,1,1,"
          "1,1,1,1],\"data_offsets\":[0,1]}}",
          1, "33 dimensions");
}

static void test_refuses_places(void **state) {
  (void)state;
#define B(range) "\"b\":{\"dtype\":\"F32\",\"shape\":[2]," range "}"
  refuses("{" A24 "," B("\"data_offsets\":[20,28]") "}", 28,
          "tensor 'b': its data overlap those of tensor 'a'");
  refuses("{" A24 "," B("\"data_offsets\":[23,31]") "}", 31, "overlap");
  refuses("{" A24 "," B("\"data_offsets\":[0,8]") "}", 24, "overlap");
  refuses("{" A24 "," B("\"data_offsets\":[8,16]") "}", 24, "overlap");
  refuses("{" A24 "," B("\"data_offsets\":[28,36]") "}", 36, "tensor 'b': a hole of 4 bytes");
  refuses("{" B("\"data_offsets\":[4,12]") "}", 12, "tensor 'b': a hole of 4 bytes");
  refuses("{" A24 "}", 25, "1 bytes at the end of the file belong to no tensor (the last is 'a')");
  refuses("{}", 1, "1 bytes at the end of the file belong to no tensor");
  refuses("{" A24 ",\"z\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[8,8]}}", 24,
          "overlap");
#undef B
}

static void test_refuses_lengths(void **state) {
  (void)state;
  io_file file = {0};
  io_error err;
  unsigned char bytes[16];
  memset(bytes, 0xff, sizeof bytes);
  assert_int_equal(read_copy(io_safetensors_parse, bytes, sizeof bytes, &file, &err), IO_BAD);
  assert_non_null(strstr(err.text, "longer than the limit"));
  image im = make("{}", 0);
  im.bytes[0] = 3;
  assert_int_equal(read_copy(io_safetensors_parse, im.bytes, im.size, &file, &err), IO_BAD);
  assert_non_null(strstr(err.text, "longer than the file"));
  memset(bytes, 0, sizeof bytes);
  bytes[3] = 0x7f; /* 2 GB: above the limit, below 2^32 */
  assert_int_equal(read_copy(io_safetensors_parse, bytes, sizeof bytes, &file, &err), IO_BAD);
  assert_non_null(strstr(err.text, "longer than the limit"));
}

/* Every prefix of a good file, and every single flipped bit, either fails cleanly or is a good
 * file. */
static void test_truncated_and_flipped(void **state) {
  (void)state;
  image im = make("{\"b\":{\"dtype\":\"F16\",\"shape\":[3],\"data_offsets\":[24,30]}," A24
                  ",\"__metadata__\":{\"k\":\"v\"}}",
                  30);
  must_survive(io_safetensors_parse, &im);
}

static void test_round_trip(void **state) {
  (void)state;
  io_file file = {0}, back = {0};
  io_error err = {{0}};
  io_tensor *t;
  assert_int_equal(io_file_add(&file, "half", io_dtype_by_name("F16"), 1, (int64_t[]){3}, &t, &err),
                   IO_OK);
  memcpy(t->data, "abcdef", 6);
  assert_int_equal(
      io_file_add(&file, "empty", io_dtype_by_name("F32"), 2, (int64_t[]){0, 7}, &t, &err), IO_OK);
  assert_int_equal(io_file_add(&file, "n\"\xc3\xa9", io_dtype_by_name("I64"), 0, NULL, &t, &err),
                   IO_OK);
  *(int64_t *)t->data = -5;
  assert_int_equal(io_safetensors_write("trip.safetensors", &file, &err), IO_OK);
  assert_int_equal(io_safetensors_read("trip.safetensors", &back, &err), IO_OK);
  assert_int_equal(back.count, 3);
  assert_memory_equal(io_file_find(&back, "half")->data, "abcdef", 6);
  assert_int_equal(*(int64_t *)io_file_find(&back, "n\"\xc3\xa9")->data, -5);
  assert_int_equal(io_file_find(&back, "empty")->shape[1], 7);
  io_file_free(&file);
  io_file_free(&back);
  assert_int_equal(unlink("trip.safetensors"), 0);
}

static int entries_in(const char *folder) {
  DIR *dir = opendir(folder);
  assert_non_null(dir);
  int n = 0;
  for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) n += e->d_name[0] != '.';
  closedir(dir);
  return n;
}

/* A write that fails half-way (file size limit) leaves an older file alone and no temporary one. */
static void test_failed_write_leaves_nothing(void **state) {
  (void)state;
  io_file file = {0};
  io_error err = {{0}};
  assert_int_equal(
      io_file_add(&file, "x", io_dtype_by_name("F32"), 1, (int64_t[]){100000}, NULL, &err), IO_OK);
  mkdir("failed", 0777);
  struct rlimit old, small;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
  small = old;
  small.rlim_cur = 4096;
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
  io_status status = io_safetensors_write("failed/x.safetensors", &file, &err);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
  assert_int_equal(status, IO_SYSTEM);
  assert_int_equal(entries_in("failed"), 0);
  assert_int_equal(rmdir("failed"), 0);
  assert_int_equal(io_safetensors_write("no/such/folder", &file, &err), IO_BAD);
  assert_int_equal(io_safetensors_write("/dev/null", &file, &err), IO_BAD);
  assert_int_equal(io_safetensors_write(".", &file, &err), IO_BAD);
  io_file_free(&file);
}

static void test_paths(void **state) {
  (void)state;
  io_file file = {0};
  io_error err = {{0}};
  assert_int_equal(io_safetensors_read("does-not-exist", &file, &err), IO_BAD);
  assert_non_null(strstr(err.text, "does-not-exist: cannot open"));
  assert_int_equal(io_safetensors_read("/", &file, &err), IO_BAD);
  assert_int_equal(io_safetensors_read("/dev/zero", &file, &err), IO_BAD);
  assert_non_null(strstr(err.text, "not a regular file"));

  assert_int_equal(io_safetensors_write("one.safetensors", &file, &err), IO_OK);
  unlink("two.safetensors");
  assert_int_equal(link("one.safetensors", "two.safetensors"), 0);
  assert_int_equal(io_refuse_same_file("one.safetensors", "two.safetensors", &err), IO_BAD);
  assert_int_equal(io_refuse_same_file("one.safetensors", "three.safetensors", &err), IO_OK);
  unlink("two.safetensors");
  /* A symbolic link stays one. */
  unlink("link.safetensors");
  assert_int_equal(symlink("one.safetensors", "link.safetensors"), 0);
  assert_int_equal(io_refuse_same_file("link.safetensors", "one.safetensors", &err), IO_BAD);
  assert_int_equal(io_safetensors_write("link.safetensors", &file, &err), IO_OK);
  struct stat st;
  assert_int_equal(lstat("link.safetensors", &st), 0);
  assert_true(S_ISLNK(st.st_mode));
  unlink("link.safetensors");
  unlink("one.safetensors");
}

static void test_sets(void **state) {
  (void)state;
  io_file file = {0};
  io_error err = {{0}};
  char name[16], text[64];
  for (int i = 0; i < 100; i++) {
    snprintf(name, sizeof name, "t%d", i);
    assert_int_equal(io_file_add(&file, name, io_dtype_of(RD_F32), 1, (int64_t[]){i}, NULL, &err),
                     IO_OK);
  }
  for (int i = 0; i < 100; i += 2) {
    snprintf(name, sizeof name, "t%d", i);
    io_file_remove(&file, name);
  }
  assert_int_equal(file.count, 50);
  io_tensor *t;
  assert_int_equal(io_file_add(&file, "t7", io_dtype_of(RD_I32), 2, (int64_t[]){2, 3}, &t, &err),
                   IO_OK);
  assert_int_equal(file.count, 50);
  io_tensor_describe(t, text, sizeof text);
  assert_string_equal(text, "I32 [2, 3]");
  io_tensor_coordinate(t, 5, text, sizeof text);
  assert_string_equal(text, "[1, 2]");
  io_tensor_describe(t, text, 8);
  assert_string_equal(text, "I32 [2,");
  rd_tensor view;
  assert_int_equal(io_tensor_view(t, &view, &err), IO_OK);
  assert_int_equal(view.stride[0], 3);
  assert_int_equal(
      io_file_add(&file, "five", io_dtype_of(RD_I32), 5, (int64_t[]){1, 1, 1, 1, 1}, &t, &err),
      IO_OK);
  assert_int_equal(io_tensor_view(t, &view, &err), IO_BAD);
  assert_int_equal(io_file_add(&file, "f64", io_dtype_by_name("F64"), 1, (int64_t[]){1}, &t, &err),
                   IO_OK);
  assert_int_equal(io_tensor_view(t, &view, &err), IO_BAD);
  assert_int_equal(io_file_add(&file, "neg", io_dtype_of(RD_I32), 1, (int64_t[]){-1}, &t, &err),
                   IO_BAD);
  io_file_free(&file);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_accepts),
      cmocka_unit_test(test_unknown_types),
      cmocka_unit_test(test_index),
      cmocka_unit_test(test_refuses_json),
      cmocka_unit_test(test_refuses_members),
      cmocka_unit_test(test_refuses_numbers),
      cmocka_unit_test(test_refuses_places),
      cmocka_unit_test(test_refuses_lengths),
      cmocka_unit_test(test_truncated_and_flipped),
      cmocka_unit_test(test_round_trip),
      cmocka_unit_test(test_failed_write_leaves_nothing),
      cmocka_unit_test(test_paths),
      cmocka_unit_test(test_sets),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
