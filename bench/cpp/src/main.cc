// cpp_batch serves a model bundle with C++ gRPC and one shared batcher, on a simulated accelerator, to compare rankd with.
#include <getopt.h>
#include <sched.h>
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "server.h"

namespace {

const char kUsage[] =
    "usage: cpp_batch --model DIR [--listen HOST:PORT] [--device sim] [--num_threads N] [--kernel NAME]\n"
    "  --listen       default 127.0.0.1:8500; port 0 lets the kernel choose\n"
    "  --device       sim, a simulated accelerator, is the only one\n"
    "  --num_threads  threads that decode, look up and answer; default: one for each processor it may use\n"
    "  --kernel       avx512, avx2 or portable; default: the fastest that this machine has\n"
    "Prints one line when it serves: READY, the address, and a JSON object. Ends in order on SIGTERM.\n";

int processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

[[noreturn]] void refuse(const char* why) {
  std::fprintf(stderr, "%s\n%s", why, kUsage);
  std::exit(2);
}

}  // namespace

int main(int argc, char** argv) {
  const option flags[] = {{"model", required_argument, nullptr, 'm'},       {"listen", required_argument, nullptr, 'l'},
                          {"device", required_argument, nullptr, 'd'},      {"num_threads", required_argument, nullptr, 't'},
                          {"kernel", required_argument, nullptr, 'k'},      {"help", no_argument, nullptr, 'h'},
                          {nullptr, 0, nullptr, 0}};
  std::string model, kernel;
  bench::ServerOptions options{"127.0.0.1:8500", processors()};
  for (int c; (c = getopt_long(argc, argv, "", flags, nullptr)) != -1;) {
    switch (c) {
      case 'm': model = optarg; break;
      case 'l': options.listen = optarg; break;
      case 'd': if (std::strcmp(optarg, "sim") != 0) refuse("--device: want sim"); break;
      case 't': options.threads = std::atoi(optarg); break;
      case 'k': kernel = optarg; break;
      case 'h': std::fputs(kUsage, stdout); return 0;
      default: refuse("unknown flag");
    }
  }
  if (model.empty() || optind != argc) refuse("want --model and no arguments");
  if (options.threads < 1) refuse("--num_threads: want at least 1");

  // Before any thread starts, so that only the wait for them sees them.
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTERM);
  sigaddset(&stop, SIGINT);
  pthread_sigmask(SIG_BLOCK, &stop, nullptr);
  try {
    bench::Bundle bundle = bench::open_bundle(model);
    for (const bench::NamedKernel& k : bench::kernels(bundle.dim)) {
      if (!kernel.empty() && kernel != k.name) continue;
      bench::serve(bundle, bench::load_tables(bundle, options.threads), k, options);
      return 0;
    }
    refuse("--kernel: not one that this machine can run");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "serve %s: %s\n", model.c_str(), error.what());
    return 1;
  }
}
