// Every kernel that runs here against a plain sum, for several widths and bags.
#include "gather.h"

#include <cstdio>
#include <cstdlib>
#include <random>

using namespace bench;

int main() {
  std::mt19937 random(1);
  const int rows = 997;
  int checked = 0;
  for (int dim : {5, 16, 32, 64, 128, 256}) {
    std::vector<float> table(size_t(rows) * dim);
    for (float& x : table) x = std::normal_distribution<float>()(random);
    for (const std::vector<int>& hot : {std::vector<int>{1}, {3, 1, 100, 2}, {17, 16, 15, 1, 1}}) {
      BagShape shape{hot, 0, dim};
      for (int h : hot) shape.ids += h;
      for (int count : {1, 2, 5}) {
        std::vector<uint32_t> ids(size_t(count) * shape.ids + kAhead);
        for (uint32_t& id : ids) id = random() % rows;
        const size_t width = hot.size() * dim, stride = width + 3;
        std::vector<float> want(count * stride, 7);
        size_t at = 0;
        for (int e = 0; e < count; e++) {
          for (size_t b = 0; b < hot.size(); b++) {
            for (int d = 0; d < dim; d++) {
              float sum = 0;
              for (int i = 0; i < hot[b]; i++) sum += table[size_t(ids[at + i]) * dim + d];
              want[e * stride + b * dim + d] = sum;
            }
            at += hot[b];
          }
        }
        for (const NamedKernel& kernel : kernels(dim)) {
          std::vector<float> got(count * stride, 7);
          kernel.run(shape, table.data(), ids.data(), count, got.data(), stride);
          if (got != want) {
            std::fprintf(stderr, "kernel %s, dim %d, %d examples: sums differ\n", kernel.name, dim, count);
            return EXIT_FAILURE;
          }
          checked++;
        }
      }
    }
  }
  std::printf("%d cases\n", checked);
  return checked >= 54 ? EXIT_SUCCESS : EXIT_FAILURE;
}
