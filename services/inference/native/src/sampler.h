// Chooses the next tokens from rows of logits.
//
// Log probabilities are read from the untouched row; then repetition penalty (CTRL, arXiv
// 1909.05858), presence and frequency penalties; then only the tokens of the mask take part in
// temperature, top-k, top-p (nucleus, arXiv 1904.09751) and min-p (arXiv 2407.01082). Sums run in a fixed order and the tokens that are left
// are gone through by index, so a row and its draw always give the same token.
#pragma once

#include <cstdint>
#include <vector>

#include "edgelora_native.h"
#include "kernels.h"
#include "thread_pool.h"

namespace edgelora {

class Sampler {
 public:
  Sampler(const Kernels& kernels, int num_tokens, int num_threads);
  // Throws Error for settings out of range; then nothing is chosen.
  void sample(const el_sampling& sampling, ThreadPool& pool);

 private:
  struct Candidate {
    float weight;
    int32_t id;
  };
  // What one thread needs to itself.
  struct Scratch {
    std::vector<float> row, maxima, sorted_maxima, weights, sums;
    std::vector<int32_t> ids;
    std::vector<float> allowed;
    std::vector<int32_t> allowed_ids;
    std::vector<Candidate> candidates;
    std::vector<double> bucket_sums;
  };

  void check(const el_sampling& s) const;
  void sample_row(const el_sampling& s, int row, Scratch& scratch) const;
  const float* penalised(const el_sampling& s, int row, Scratch& scratch) const;
  static int keep_allowed(const float* x, int n, const uint32_t* mask, Scratch& scratch);
  int32_t choose(const float* x, int n, const el_sampling& s, int row, Scratch& scratch) const;
  int32_t likeliest(const float* x, int n, Scratch& scratch) const;
  int32_t draw(const float* x, int n, const el_sampling& s, int row, Scratch& scratch) const;
  void keep_nucleus(int n, float top_p, Scratch& scratch) const;
  static int find_bucket(int n, double target, double& before, Scratch& scratch);
  void list_logprobs(const float* x, const el_sampling& s, int row, Scratch& scratch) const;

  void collect_largest(const float* x, int n, int count, Scratch& scratch) const;
  static bool is_heavier(const Candidate& a, const Candidate& b);

  const Kernels& kernels_;
  const int num_tokens_;
  std::vector<Scratch> scratch_;
};

}  // namespace edgelora
