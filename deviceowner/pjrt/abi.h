// The part of the PJRT C API 0.x that the shim calls, in its own words. The layouts below are facts of a binary interface;
// testdata/abi_check.c compares every one of them with the official header. Many calls take arguments of the same form, so
// one struct here may stand for several there.
//
// The interface grows by appending: a plugin reads struct_size to learn which fields its caller knows, and the caller reads
// the table's struct_size to learn which functions the plugin has.
#ifndef RANKD_PJRT_ABI_H
#define RANKD_PJRT_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct pj_error pj_error;
typedef struct pj_event pj_event;
typedef struct pj_client pj_client;
typedef struct pj_device pj_device;
typedef struct pj_topology pj_topology;     // devices that need not be there
typedef struct pj_executable pj_executable; // a compiled program
typedef struct pj_loaded pj_loaded;         // a compiled program on its device
typedef struct pj_buffer pj_buffer;

// pj_slot is a position in the function table.
enum pj_slot {
  pj_error_destroy = 0,
  pj_error_message = 1,
  pj_error_code = 2,
  pj_plugin_initialize = 3,
  pj_event_destroy = 5,
  pj_event_await = 8,
  pj_event_on_ready = 9,
  pj_client_create = 10,
  pj_client_destroy = 11,
  pj_client_platform_name = 12,
  pj_client_platform_version = 14,
  pj_client_devices = 16,
  pj_client_compile = 20,
  pj_client_upload = 22,
  pj_description_id = 23,
  pj_description_kind = 26,
  pj_device_description = 29,
  pj_executable_destroy = 40,
  pj_executable_result_count = 44,
  pj_executable_serialize = 49,
  pj_loaded_destroy = 50,
  pj_loaded_executable = 51,
  pj_loaded_execute = 55,
  pj_deserialize = 56,
  pj_buffer_destroy = 58,
  pj_buffer_type = 59,
  pj_buffer_dims = 60,
  pj_buffer_download = 70,
  pj_topology_create = 82,
  pj_topology_destroy = 83,
  pj_topology_platform_name = 84,
  pj_topology_platform_version = 85,
  pj_topology_devices = 86,
  pj_compile_for = 89,
  pj_executable_result_types = 90,
  pj_executable_result_dims = 91,
  pj_client_dma_map = 110,
  pj_client_dma_unmap = 111,
};

// pj_type is an element type.
enum pj_type {
  pj_bool = 1,
  pj_s8 = 2,
  pj_s16 = 3,
  pj_s32 = 4,
  pj_s64 = 5,
  pj_u8 = 6,
  pj_u16 = 7,
  pj_u32 = 8,
  pj_u64 = 9,
  pj_f16 = 10,
  pj_f32 = 11,
  pj_f64 = 12,
  pj_bf16 = 13,
};

struct pj_version {
  size_t struct_size;
  void *extensions;
  int major;
  int minor;
};

// pj_api is the function table. Every function takes a pointer to its arguments and returns a pj_error, NULL for success,
// except those of pj_error itself, of which only pj_error_code returns one.
struct pj_api {
  size_t struct_size;
  void *extensions;
  struct pj_version version;
  void *functions[];
};

// pj_nothing is what a call without arguments takes.
struct pj_nothing {
  size_t struct_size;
  void *extensions;
};

// pj_one is an object to await or destroy.
struct pj_one {
  size_t struct_size;
  void *extensions;
  void *object;
};

// pj_on_ready asks for a call when an event is ready. The callback frees the error, if there is one. It may come before the
// asking call returns, or on a thread of the plugin.
struct pj_on_ready {
  size_t struct_size;
  void *extensions;
  pj_event *event;
  void (*callback)(pj_error *error, void *user);
  void *user;
};

// pj_dma is host memory that the device may read without a copy in between. To unmap it, it ends with data.
struct pj_dma {
  size_t struct_size;
  void *extensions;
  pj_client *client;
  void *data;
  size_t size;
};

// pj_get asks an object for another one.
struct pj_get {
  size_t struct_size;
  void *extensions;
  const void *object;
  void *result; // out
};

// pj_text asks an object for a text that it keeps.
struct pj_text {
  size_t struct_size;
  void *extensions;
  const void *object;
  const char *text; // out
  size_t size;      // out
};

// pj_int asks an object for a small number.
struct pj_int {
  size_t struct_size;
  void *extensions;
  const void *object;
  int value; // out
};

// pj_count asks an object for a number of things.
struct pj_count {
  size_t struct_size;
  void *extensions;
  const void *object;
  size_t count; // out
};

// pj_list asks an object for an array that it keeps.
struct pj_list {
  size_t struct_size;
  void *extensions;
  const void *object;
  const void *items; // out
  size_t count;      // out
};

// pj_named is one option for a client.
enum { pj_named_string = 0, pj_named_int64 = 1, pj_named_int64_list = 2, pj_named_float = 3, pj_named_bool = 4 };

struct pj_named {
  size_t struct_size;
  void *extensions;
  const char *name;
  size_t name_size;
  int kind;
  union {
    const char *string;
    int64_t number;
    const int64_t *numbers;
    float real;
    bool flag;
  } value;
  size_t value_size; // of a string or a list; 1 for the others
};

struct pj_create {
  size_t struct_size;
  void *extensions;
  const struct pj_named *options;
  size_t option_count;
  void *key_value_get[4]; // callbacks and their arguments, for clients of several processes
  pj_client *client;      // out
  void *key_value_try[2];
};

struct pj_program {
  size_t struct_size;
  void *extensions;
  const char *code;
  size_t code_size;
  const char *format;
  size_t format_size;
};

struct pj_compile {
  size_t struct_size;
  void *extensions;
  pj_client *client;
  const struct pj_program *program;
  const char *options; // a serialized CompileOptionsProto
  size_t options_size;
  pj_loaded *loaded; // out
};

struct pj_topology_args {
  size_t struct_size;
  void *extensions;
  const char *name;
  size_t name_size;
  const struct pj_named *options;
  size_t option_count;
  pj_topology *topology; // out
};

// pj_compile_for_args compiles for a topology rather than for a client.
struct pj_compile_for_args {
  size_t struct_size;
  void *extensions;
  const pj_topology *topology;
  const struct pj_program *program;
  const char *options; // a serialized CompileOptionsProto
  size_t options_size;
  pj_client *client;         // none
  pj_executable *executable; // out
};

// How long the plugin may use the host's memory that it is given.
enum {
  pj_during_call = 0,    // it copies before the call returns
  pj_until_transfer = 1, // until the transfer is complete
  pj_zero_copy = 2,      // as long as the buffer lives; it does not write
};

struct pj_upload {
  size_t struct_size;
  void *extensions;
  pj_client *client;
  const void *data;
  int type;
  const int64_t *dims;
  size_t dim_count;
  const int64_t *strides; // none: dense, row-major
  size_t stride_count;
  int semantics;
  pj_device *device;
  void *memory;
  void *layout;
  pj_event *host_done; // out: ready when the host's memory is free again
  pj_buffer *buffer;   // out
};

struct pj_download {
  size_t struct_size;
  void *extensions;
  pj_buffer *buffer;
  void *layout;
  void *data;
  size_t size;     // bytes at data, at least what the buffer needs
  pj_event *event; // out: ready when data is complete
};

struct pj_execute_options {
  size_t struct_size;
  void *extensions;
  void *callbacks[2]; // send, receive
  size_t callback_counts[2];
  int launch;
  const int64_t *kept; // indices of arguments that the program must not take over
  size_t kept_count;
  void *context;
  const char *call_location;
  size_t task_count;
  int *tasks;
  int64_t *incarnations;
};

struct pj_execute {
  size_t struct_size;
  void *extensions;
  pj_loaded *loaded;
  struct pj_execute_options *options;
  pj_buffer *const *const *arguments; // [device][argument]
  size_t device_count;
  size_t argument_count;
  pj_buffer **const *results; // [device][result], the arrays are the caller's
  pj_event **completions;     // [device], or NULL
  pj_device *device;          // NULL: the one that the program was compiled for
};

struct pj_result_types {
  size_t struct_size;
  void *extensions;
  pj_executable *executable;
  const int *types; // out
  size_t count;     // out
};

struct pj_result_dims {
  size_t struct_size;
  void *extensions;
  pj_executable *executable;
  size_t count;            // in: results
  const int64_t *dims;     // out: of all results, one after the other
  const size_t *dim_sizes; // out: dimensions of each result
};

struct pj_serialize {
  size_t struct_size;
  void *extensions;
  const pj_executable *executable;
  const char *bytes; // out
  size_t size;       // out
  void *owner;       // out: keeps bytes alive
  void (*free_owner)(void *owner); // out
};

struct pj_deserialize_args {
  size_t struct_size;
  void *extensions;
  pj_client *client;
  const char *bytes;
  size_t size;
  pj_loaded *loaded; // out
  const char *options;
  size_t options_size;
};

#endif
