#include "batcher.h"

#include <sys/prctl.h>

#include "tables.h"

namespace bench {

Batcher::Batcher(const Bundle& bundle)
    : max_batch_(bundle.max_batch), row_floats_(bundle.row_floats), device_(bundle) {
  for (int i = 0; i < kBatches; i++) {
    all_.push_back(std::make_unique<Batch>());
    Batch* b = all_.back().get();
    b->rows = static_cast<float*>(map_huge(size_t(max_batch_) * row_floats_ * 4));
    b->scores.resize(max_batch_);
    free_.push_back(b);
  }
  thread_ = std::thread([this] { run(); });
}

Batcher::~Batcher() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    stop_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

Batcher::Place Batcher::reserve(int count, std::function<void(const float*)> done) {
  std::unique_lock<std::mutex> lock(mu_);
  bool wake = false;
  if (open_ && open_->reserved + count > max_batch_) {
    close_open();
    wake = true;
  }
  while (!open_) {
    if (!free_.empty()) {
      open_ = free_.back();
      free_.pop_back();
      open_->opened = Clock::now();
      wake = true;  // the scheduler has a new time to wait for
      break;
    }
    if (wake) changed_.notify_one();
    room_.wait(lock);
    if (open_ && open_->reserved + count > max_batch_) {
      close_open();
      wake = true;
    }
  }
  Batch* b = open_;
  Place place{b, b->rows + size_t(b->reserved) * row_floats_, count};
  b->parts.push_back({b->reserved, count, std::move(done)});
  b->reserved += count;
  if (b->reserved == max_batch_) {
    close_open();
    wake = true;
  }
  lock.unlock();
  if (wake) changed_.notify_one();
  return place;
}

void Batcher::commit(const Place& place) {
  // The last writer of a closed batch wakes the scheduler. If the batch is launched and even opened again before the lock
  // is taken here, then nobody waits for this wake-up, and a needless one does no harm.
  place.batch->written.fetch_add(place.count, std::memory_order_release);
  std::unique_lock<std::mutex> lock(mu_);
  Batch* b = place.batch;
  bool whole = b->closed && b->written.load(std::memory_order_acquire) == b->reserved;
  lock.unlock();
  if (whole) changed_.notify_one();
}

void Batcher::close_open() {
  open_->closed = true;
  closed_.push_back(open_);
  open_ = nullptr;
}

void Batcher::run() {
  prctl(PR_SET_TIMERSLACK, 1);  // waits end on time instead of up to 50 us late
  std::unique_lock<std::mutex> lock(mu_);
  for (;;) {
    Clock::time_point now = Clock::now();
    if (open_ && now >= open_->opened + kDelay) close_open();
    Batch* next = closed_.empty() ? nullptr : closed_.front();
    if (next && running_.size() < SimDevice::kDepth && next->written.load(std::memory_order_acquire) == next->reserved) {
      closed_.pop_front();
      running_.push_back(next);
      lock.unlock();
      next->end = device_.launch(next->rows, next->reserved, next->scores.data());
      lock.lock();
      continue;
    }
    if (!running_.empty() && now >= running_.front()->end) {
      Batch* ended = running_.front();
      running_.pop_front();
      lock.unlock();
      for (Batch::Part& part : ended->parts) part.done(ended->scores.data() + part.first);
      ended->parts.clear();
      lock.lock();
      ended->reserved = 0;
      ended->closed = false;
      ended->written.store(0, std::memory_order_relaxed);
      free_.push_back(ended);
      room_.notify_all();
      continue;
    }
    if (stop_ && !open_ && closed_.empty() && running_.empty()) return;
    Clock::time_point until = now + std::chrono::milliseconds(100);
    if (open_) until = std::min(until, open_->opened + kDelay);
    if (!running_.empty()) until = std::min(until, running_.front()->end);
    changed_.wait_until(lock, until);
  }
}

}  // namespace bench
