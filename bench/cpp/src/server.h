// The gRPC side: the asynchronous API, a completion queue and a thread for each processor.
#pragma once

#include <string>

#include "bundle.h"
#include "gather.h"
#include "tables.h"

namespace bench {

struct ServerOptions {
  std::string listen;
  int threads = 1;
};

// Serves until SIGTERM or SIGINT, which must be blocked in all threads, then ends what is in flight.
// Prints a line when it serves. Throws Error.
void serve(const Bundle& bundle, const Tables& tables, NamedKernel kernel, const ServerOptions& options);

}  // namespace bench
