// The shared batch scheduler: calls of all threads write their rows into one open batch, and a thread of its own closes,
// launches and completes batches.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "bundle.h"
#include "device.h"

namespace bench {

// A batch under construction, and later on the device. Its rows belong to the calls that reserved them until it is whole
// (closed, and all rows written), then to the device until its calls got their scores.
struct Batch {
  float* rows = nullptr;  // [max_batch, row_floats]
  std::vector<float> scores;
  int reserved = 0;  // rows
  bool closed = false;
  std::atomic<int> written{0};  // rows
  Clock::time_point opened;     // when the first call came
  Clock::time_point end;        // on the device's timeline
  struct Part {
    int first, count;
    std::function<void(const float* scores)> done;
  };
  std::vector<Part> parts;  // the calls
};

class Batcher {
 public:
  static constexpr auto kDelay = std::chrono::milliseconds(1);  // that the first call of a batch waits for others
  static constexpr int kBatches = 5;                            // open, being written, and two on the device

  explicit Batcher(const Bundle& bundle);
  ~Batcher();

  // Where a call writes its rows.
  struct Place {
    Batch* batch;
    float* rows;
    int count;
  };

  // Reserves rows in the open batch, all in one; a batch without room is closed first. Waits while all batches are in use.
  // `done` gets the scores, on the scheduler's thread.
  Place reserve(int count, std::function<void(const float* scores)> done);

  // Says that the rows of a place are written.
  void commit(const Place& place);

 private:
  void run();
  void close_open();  // mu_ held

  const int max_batch_;
  const int row_floats_;
  SimDevice device_;
  std::vector<std::unique_ptr<Batch>> all_;

  std::mutex mu_;                    // guards what follows
  std::condition_variable changed_;  // for the scheduler
  std::condition_variable room_;     // for calls
  std::vector<Batch*> free_;
  Batch* open_ = nullptr;        // null: none has been opened since the last one was closed
  std::deque<Batch*> closed_;    // in order
  std::deque<Batch*> running_;   // in order
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace bench
