#include "server.h"

#include <grpcpp/ext/health_check_service_server_builder_option.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "batcher.h"
#include "inputs.h"
#include "rankd/v1/prediction.grpc.pb.h"

namespace bench {

namespace {

using rankd::v1::PredictionService;
using rankd::v1::PredictRequest;
using rankd::v1::PredictResponse;

constexpr int kArmed = 128;               // calls that a queue can take up at once
constexpr int kMaxMessage = 64 << 20;     // bytes
constexpr auto kGrace = std::chrono::seconds(30);

struct Shared {
  const Bundle& bundle;
  const Tables& tables;
  NamedKernel kernel;
  Decoder decoder;
  Batcher batcher;
  PredictionService::AsyncService service;
};

// A call, from its request to the end of its reply. It belongs to its queue's thread, but for the time between `reserve`
// and the end of the batch, in which the scheduler's thread may call reply at any moment.
class Call {
 public:
  Call(Shared& shared, grpc::ServerCompletionQueue* queue) : shared_(shared), queue_(queue), writer_(&context_) {
    shared.service.RequestPredict(&context_, &request_, &writer_, queue, queue, this);
  }

  // Goes on after an event; deletes the call after its last one. `inputs` is the thread's own.
  void proceed(bool ok, Inputs& inputs) {
    if (!ok || answered_) {
      delete this;
      return;
    }
    new Call(shared_, queue_);
    answered_ = true;  // before the scheduler can answer
    std::string wrong = shared_.decoder.decode(request_, inputs);
    if (!wrong.empty()) {
      writer_.FinishWithError(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, wrong), this);
      return;
    }
    const int count = inputs.count;
    const Bundle& b = shared_.bundle;
    Batcher::Place place = shared_.batcher.reserve(count, [this, count](const float* scores) { reply(scores, count); });
    for (const Run& run : inputs.runs) write(run, inputs.rows.data() + run.at, place);
    const size_t step = inputs.dense_rows == 1 ? 0 : size_t(4) * b.dense_width;
    for (int e = 0; e < count; e++) {
      std::memcpy(place.rows + size_t(e) * b.row_floats + b.dense_column, inputs.dense + e * step, 4 * b.dense_width);
    }
    shared_.batcher.commit(place);  // from here on the call may be gone
  }

 private:
  // Pools the bags of a run. Those that serve all examples are pooled into the first row and copied to the others.
  void write(const Run& run, const uint32_t* rows, const Batcher::Place& place) {
    const Bundle& b = shared_.bundle;
    float* first = place.rows + size_t(run.first) * b.dim;
    shared_.kernel.run(*run.shape, shared_.tables.rows, rows, run.count, first, b.row_floats);
    for (int e = run.count; e < place.count; e++) {
      std::memcpy(first + size_t(e) * b.row_floats, first, size_t(4) * run.tables * b.dim);
    }
  }

  void reply(const float* scores, int count) {
    response_.set_model_name(shared_.bundle.name);
    response_.set_model_version(shared_.bundle.version);
    response_.set_request_id(request_.request_id());
    auto& tensor = (*response_.mutable_outputs())[shared_.bundle.output];
    tensor.set_dtype(rankd::v1::DTYPE_FLOAT32);
    tensor.add_shape(count);
    tensor.set_data(scores, 4 * size_t(count));
    writer_.Finish(response_, grpc::Status::OK, this);
  }

  Shared& shared_;
  grpc::ServerCompletionQueue* queue_;
  grpc::ServerContext context_;
  PredictRequest request_;
  PredictResponse response_;
  grpc::ServerAsyncResponseWriter<PredictResponse> writer_;
  bool answered_ = false;
};

}  // namespace

void serve(const Bundle& bundle, const Tables& tables, NamedKernel kernel, const ServerOptions& options) {
  Shared shared{bundle, tables, kernel, Decoder(bundle, tables), Batcher(bundle), {}};

  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(options.listen, grpc::InsecureServerCredentials(), &port);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetMaxReceiveMessageSize(kMaxMessage);
  builder.RegisterService(&shared.service);
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues;
  for (int i = 0; i < options.threads; i++) queues.push_back(builder.AddCompletionQueue());
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (!server || port == 0) throw Error("listen on \"" + options.listen + "\": it did not work");
  server->GetHealthCheckService()->SetServingStatus(PredictionService::service_full_name(), true);

  std::vector<std::thread> threads;
  for (auto& queue : queues) {
    for (int i = 0; i < kArmed; i++) new Call(shared, queue.get());
    threads.emplace_back([q = queue.get()] {
      Inputs inputs;
      void* tag;
      for (bool ok; q->Next(&tag, &ok);) static_cast<Call*>(tag)->proceed(ok, inputs);
    });
  }

  std::string host = options.listen.substr(0, options.listen.rfind(':'));
  std::printf("READY %s:%d {\"arm\": \"cpp-batch\", \"device\": \"sim (simulated accelerator)\", \"kernel\": \"%s\", "
              "\"pages\": \"%zu of %zu bytes on huge pages\", \"threads\": %d, \"pids\": [%d]}\n",
              host.c_str(), port, kernel.name, huge_bytes(tables.rows, tables.bytes), tables.bytes, options.threads,
              int(getpid()));
  std::fflush(stdout);

  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTERM);
  sigaddset(&stop, SIGINT);
  int number;
  sigwait(&stop, &number);
  server->GetHealthCheckService()->SetServingStatus(false);
  server->Shutdown(std::chrono::system_clock::now() + kGrace);
  for (auto& queue : queues) queue->Shutdown();
  for (std::thread& t : threads) t.join();
}

}  // namespace bench
