// A simulated accelerator with rankd's timeline and score. It is no model of any product.
#pragma once

#include <chrono>
#include <vector>

#include "bundle.h"

namespace bench {

using Clock = std::chrono::steady_clock;

// One launch after the other: each takes kCall and kRow a row that carries a request; padding is free.
class SimDevice {
 public:
  static constexpr auto kCall = std::chrono::nanoseconds(350'000);
  static constexpr auto kRow = std::chrono::nanoseconds(1'500);
  static constexpr int kDepth = 2;  // launches in flight; the caller sees to it

  explicit SimDevice(const Bundle& bundle);

  // Puts a batch on the timeline, computes its scores, and returns when it ends. One thread at a time.
  //
  // The score of a row is the fraction of a sum, in float64 and in this order, over column 0 of every pooled vector and
  // then every dense feature: scalar s has the weight k / 2^24 with k = ((2s+1) * 0x9E3779B1 mod 2^32) >> 8 | 1.
  Clock::time_point launch(const float* rows, int count, float* scores);

 private:
  struct Scalar {
    int column;
    double weight;
  };
  std::vector<Scalar> scalars_;
  int row_floats_;
  Clock::time_point busy_{};
};

}  // namespace bench
