#include <stdlib.h>

#include "shim_internal.h"

// Not every plugin can compile without a device, so these are not among the required functions.
static const int needed[] = {
    pj_topology_create,  pj_topology_destroy, pj_topology_platform_name, pj_topology_platform_version,
    pj_topology_devices, pj_compile_for,      pj_executable_serialize,
};

static int inquire(struct rk_topology *t, struct rk_failure *f) {
  ARGS(pj_text, name, size);
  ARGS(pj_text, version, size);
  ARGS(pj_list, devices, count);
  name.object = version.object = devices.object = t->topology;
  if (rk_bad(t->api, rk_invoke(t->api, pj_topology_platform_name, &name), f) ||
      rk_bad(t->api, rk_invoke(t->api, pj_topology_platform_version, &version), f) ||
      rk_bad(t->api, rk_invoke(t->api, pj_topology_devices, &devices), f))
    return f->code;
  t->platform = name.text, t->platform_size = name.size;
  t->version = version.text, t->version_size = version.size;
  t->device_count = devices.count;
  // They come in any order. A client of such devices has the one with the smallest number first.
  for (size_t i = 0; i < devices.count; i++) {
    int id;
    const char *kind;
    size_t kind_size;
    if (rk_describe(t->api, ((void *const *)devices.items)[i], &id, &kind, &kind_size, f)) return f->code;
    if (i && id >= t->id) continue;
    t->id = id;
    t->kind = kind, t->kind_size = kind_size;
  }
  return 0; // the caller judges a topology without devices
}

int rk_topology_open(const struct pj_api *api, const char *name, size_t name_size, const struct pj_named *options, size_t option_count,
                     struct rk_topology **topology, struct rk_failure *f) {
  for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
    if (!rk_has(api, needed[i])) return rk_fail(f, 12, "the plugin has no functions to compile without a device"); // 12: unimplemented
  ARGS(pj_topology_args, create, topology);
  create.name = name;
  create.name_size = name_size;
  create.options = options;
  create.option_count = option_count;
  struct rk_topology *t = calloc(1, sizeof *t);
  if (!t) return rk_fail(f, 8, "out of memory"); // 8: resource exhausted
  t->api = api;
  if (rk_bad(api, rk_invoke(api, pj_topology_create, &create), f)) {
    free(t);
    return f->code;
  }
  rk_count(rk_topologies, 1);
  t->topology = create.topology;
  if (inquire(t, f)) {
    rk_topology_close(t, f);
    return f->code;
  }
  *topology = t;
  return 0;
}

int rk_topology_close(struct rk_topology *t, struct rk_failure *f) {
  ARGS(pj_one, gone, object);
  gone.object = t->topology;
  if (!rk_bad(t->api, rk_invoke(t->api, pj_topology_destroy, &gone), f)) rk_count(rk_topologies, -1);
  free(t);
  return f->code;
}

int rk_topology_compile(struct rk_topology *t, const char *code, size_t code_size, const char *options, size_t options_size,
                        struct rk_form *form, struct rk_image *image, struct rk_failure *f) {
  ARGS(pj_program, program, format_size);
  program.code = code;
  program.code_size = code_size;
  program.format = "mlir";
  program.format_size = 4;
  ARGS(pj_compile_for_args, args, executable);
  args.topology = t->topology;
  args.program = &program;
  args.options = options;
  args.options_size = options_size;
  if (rk_bad(t->api, rk_invoke(t->api, pj_compile_for, &args), f)) return f->code;
  rk_count(rk_programs, 1);
  if (!rk_executable_form(t->api, args.executable, form, f)) rk_executable_image(t->api, args.executable, image, f);
  rk_executable_free(t->api, args.executable, f);
  if (f->code) rk_image_free(image);
  return f->code;
}
