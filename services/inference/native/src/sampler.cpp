#include "sampler.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "error.h"

namespace edgelora {
namespace {

// Weights fall into buckets by exponent and 6 bits of fraction; 1 is the largest.
constexpr int kBucketShift = 17;
constexpr size_t kNumBuckets = (0x3f800000u >> kBucketShift) + 1;
// Fewer candidates than this are sorted out sooner than counted.
constexpr size_t kManyCandidates = 512;
constexpr float kLeastTemperature = 1e-6f;

size_t bucket_of(float weight) {
  uint32_t bits;
  std::memcpy(&bits, &weight, sizeof bits);
  return bits >> kBucketShift;
}

int num_chunks(int n) { return (n + kVocabularyChunk - 1) / kVocabularyChunk; }

template <typename T>
size_t as_size(T x) {
  return static_cast<size_t>(x);
}

// Index at which the running sum of `value(i)` first exceeds `share` of its total; never one of
// value 0.
template <typename F>
int first_beyond(int count, double share, const F& value, double& inside) {
  double total = 0.0;
  for (int i = 0; i < count; i++) total += value(i);
  const double target = std::min(share * total, std::nextafter(total, 0.0));
  double before = 0.0;
  for (int i = 0; i < count; i++) {
    const double own = value(i);
    if (before + own > target) {
      inside = (target - before) / own;
      return i;
    }
    before += own;
  }
  inside = 0.0;
  return 0;
}

}  // namespace

Sampler::Sampler(const Kernels& kernels, int num_tokens, int num_threads)
    : kernels_(kernels), num_tokens_(num_tokens), scratch_(as_size(num_threads)) {}

void Sampler::check(const el_sampling& s) const {
  require(s.num_rows >= 1, "sampling needs at least one row");
  const void* arrays[] = {s.logits,           s.temperature,      s.top_k,
                          s.top_p,            s.min_p,            s.draws,
                          s.repetition_penalty, s.presence_penalty, s.frequency_penalty,
                          s.penalty_offsets,  s.penalty_ids,      s.penalty_counts,
                          s.num_logprobs,     s.token_ids,        s.logprobs,
                          s.top_ids,          s.top_logprobs};
  for (const void* array : arrays) require(array != nullptr, "an array of the sampling is missing");
  require(s.num_tokens >= 1 && s.num_tokens <= num_tokens_ && s.row_stride >= s.num_tokens,
          "sampling wants more tokens than a row holds");
  require(s.penalty_offsets[0] == 0, "the offsets of a batch start at 0");
  for (int r = 0; r < s.num_rows; r++) {
    require(std::isfinite(s.temperature[r]) && s.temperature[r] >= 0.0f,
            "a temperature is not a number from 0 up");
    require(s.top_k[r] >= 0 && s.top_p[r] > 0.0f && s.top_p[r] <= 1.0f && s.min_p[r] >= 0.0f &&
                s.min_p[r] <= 1.0f,
            "a top_k, top_p or min_p is out of range");
    require(s.draws[r] >= 0.0 && s.draws[r] < 1.0, "a draw is not in [0, 1)");
    require(std::isfinite(s.repetition_penalty[r]) && s.repetition_penalty[r] > 0.0f &&
                std::isfinite(s.presence_penalty[r]) && std::isfinite(s.frequency_penalty[r]),
            "a penalty is out of range");
    require(s.num_logprobs[r] <= EL_MAX_TOP_LOGPROBS && s.num_logprobs[r] <= s.num_tokens,
            "too many log probabilities are wanted");
    require(s.penalty_offsets[r + 1] >= s.penalty_offsets[r], "the offsets of a batch must not fall");
  }
  for (int32_t i = 0; i < s.penalty_offsets[s.num_rows]; i++)
    require(s.penalty_ids[i] >= 0 && s.penalty_ids[i] < s.num_tokens && s.penalty_counts[i] >= 0,
            "a token id is outside the vocabulary");
}

void Sampler::sample(const el_sampling& s, ThreadPool& pool) {
  check(s);
  const size_t chunks = as_size(num_chunks(num_tokens_));
  for (Scratch& scratch : scratch_) {
    scratch.maxima.resize(chunks * kLanes);
    scratch.weights.resize(chunks * kVocabularyChunk);
    scratch.sums.resize(chunks);
    scratch.ids.resize(as_size(num_tokens_));
  }
  pool.run([&](ThreadPool::Team& team) {
    team.each(s.num_rows,
              [&](int row) { sample_row(s, row, scratch_[as_size(team.index())]); });
  });
}

void Sampler::sample_row(const el_sampling& s, int row, Scratch& scratch) const {
  const float* untouched = s.logits + row * s.row_stride;
  const float* x = penalised(s, row, scratch);
  if (!kernels_.scan(x, s.num_tokens, scratch.maxima.data())) {
    s.token_ids[row] = -1;
    return;
  }
  s.token_ids[row] =
      s.temperature[row] > 0.0f ? draw(x, s, row, scratch) : likeliest(x, s.num_tokens, scratch);
  if (s.num_logprobs[row] >= 0) list_logprobs(untouched, s, row, scratch);
}

const float* Sampler::penalised(const el_sampling& s, int row, Scratch& scratch) const {
  const float* untouched = s.logits + row * s.row_stride;
  const int32_t begin = s.penalty_offsets[row];
  const int32_t end = s.penalty_offsets[row + 1];
  if (begin == end) return untouched;
  scratch.row.assign(untouched, untouched + s.num_tokens);
  for (int32_t i = begin; i < end; i++) {
    float& value = scratch.row[as_size(s.penalty_ids[i])];
    value = value > 0.0f ? value / s.repetition_penalty[row] : value * s.repetition_penalty[row];
    if (s.penalty_counts[i] == 0) continue;
    value -= s.presence_penalty[row];
    value -= s.frequency_penalty[row] * static_cast<float>(s.penalty_counts[i]);
  }
  return scratch.row.data();
}

// The first token with the largest logit.
int32_t Sampler::likeliest(const float* x, int n, Scratch& scratch) const {
  const float* maxima = scratch.maxima.data();
  const auto largest = std::max_element(maxima, maxima + num_chunks(n) * kLanes);
  const auto begin = static_cast<int>((largest - maxima) / kLanes) * kVocabularyChunk;
  const int end = std::min(begin + kVocabularyChunk, n);
  return static_cast<int32_t>(std::find(x + begin, x + end, *largest) - x);
}

int32_t Sampler::draw(const float* x, const el_sampling& s, int row, Scratch& scratch) const {
  const bool is_cut = (s.top_k[row] > 0 && s.top_k[row] < s.num_tokens) || s.top_p[row] < 1.0f ||
                      s.min_p[row] > 0.0f;
  return is_cut ? draw_from_some(x, s, row, scratch) : draw_from_all(x, s, row, scratch);
}

int32_t Sampler::draw_from_all(const float* x, const el_sampling& s, int row,
                               Scratch& scratch) const {
  const int n = s.num_tokens;
  const float top = x[likeliest(x, n, scratch)];
  kernels_.weigh(x, n, top, 1.0f / std::max(s.temperature[row], kLeastTemperature),
                 scratch.weights.data(), scratch.sums.data());
  double inside = 0.0;
  const int chunk = first_beyond(
      num_chunks(n), s.draws[row], [&](int i) { return scratch.sums[as_size(i)]; }, inside);
  const int begin = chunk * kVocabularyChunk;
  const int count = std::min(kVocabularyChunk, n - begin);
  return begin + first_beyond(
                     count, inside, [&](int i) { return scratch.weights[as_size(begin + i)]; },
                     inside);
}

int32_t Sampler::draw_from_some(const float* x, const el_sampling& s, int row,
                                Scratch& scratch) const {
  const int n = s.num_tokens;
  const float top = x[likeliest(x, n, scratch)];
  const float factor = 1.0f / std::max(s.temperature[row], kLeastTemperature);
  std::vector<Candidate>& candidates = scratch.candidates;
  double total = 0.0;
  if (s.top_k[row] > 0 && s.top_k[row] < n) {
    collect_largest(x, n, s.top_k[row], scratch);
    keep_down_to(last_of_largest(as_size(s.top_k[row]), scratch), candidates);
    const auto count = static_cast<int>(candidates.size());
    scratch.row.resize(candidates.size());
    for (size_t i = 0; i < candidates.size(); i++) scratch.row[i] = candidates[i].weight;
    kernels_.weigh(scratch.row.data(), count, top, factor, scratch.weights.data(),
                   scratch.sums.data());
    for (size_t i = 0; i < candidates.size(); i++) candidates[i].weight = scratch.weights[i];
    for (int c = 0; c < num_chunks(count); c++) total += scratch.sums[as_size(c)];
  } else {
    kernels_.weigh(x, n, top, factor, scratch.weights.data(), scratch.sums.data());
    for (int c = 0; c < num_chunks(n); c++) total += scratch.sums[as_size(c)];
    // All tokens lighter than this weigh less together than what top-p may leave out.
    const auto spare = static_cast<float>((1.0 - s.top_p[row]) * total / n);
    const int count = kernels_.collect(scratch.weights.data(), n, std::max(spare, s.min_p[row]),
                                       scratch.ids.data());
    candidates.clear();
    for (int i = 0; i < count; i++) {
      const int32_t id = scratch.ids[as_size(i)];
      candidates.push_back({scratch.weights[as_size(id)], id});
    }
  }
  if (s.top_p[row] < 1.0f)
    keep_down_to(last_of_nucleus(s.top_p[row] * total, scratch), candidates);
  // The heaviest weighs 1, so min-p is the bound itself.
  candidates.erase(std::remove_if(candidates.begin(), candidates.end(),
                                  [&](const Candidate& c) { return c.weight < s.min_p[row]; }),
                   candidates.end());
  double inside = 0.0;
  const int chosen = first_beyond(
      static_cast<int>(candidates.size()), s.draws[row],
      [&](int i) { return candidates[as_size(i)].weight; }, inside);
  return candidates[as_size(chosen)].id;
}

void Sampler::list_logprobs(const float* x, const el_sampling& s, int row,
                            Scratch& scratch) const {
  const int n = s.num_tokens;
  kernels_.scan(x, n, scratch.maxima.data());
  const float top = x[likeliest(x, n, scratch)];
  kernels_.weigh(x, n, top, 1.0f, scratch.weights.data(), scratch.sums.data());
  double total = 0.0;
  for (int c = 0; c < num_chunks(n); c++) total += scratch.sums[as_size(c)];
  const double log_total = static_cast<double>(top) + std::log(total);
  s.logprobs[row] = static_cast<double>(x[s.token_ids[row]]) - log_total;
  if (s.num_logprobs[row] == 0) return;
  const auto count = as_size(s.num_logprobs[row]);
  collect_largest(x, n, s.num_logprobs[row], scratch);
  std::vector<Candidate>& best = scratch.candidates;
  std::partial_sort(best.begin(), best.begin() + static_cast<ptrdiff_t>(count), best.end(),
                    is_heavier);
  for (size_t i = 0; i < count; i++) {
    const size_t at = as_size(row) * EL_MAX_TOP_LOGPROBS + i;
    s.top_ids[at] = best[i].id;
    s.top_logprobs[at] = static_cast<double>(best[i].weight) - log_total;
  }
}

// Fills the candidates with logits, by index: the `count` largest and perhaps some more. The
// count-th largest maximum of all lanes is a lower bound of the count-th largest logit.
void Sampler::collect_largest(const float* x, int n, int count, Scratch& scratch) const {
  std::vector<float>& sorted = scratch.sorted_maxima;
  // Lanes of the last chunk that no token fills repeat another lane's and must not count twice.
  const int whole = n / kVocabularyChunk * kLanes;
  float least = -std::numeric_limits<float>::infinity();
  if (count <= whole) {
    sorted.assign(scratch.maxima.begin(), scratch.maxima.begin() + whole);
    const auto bound = sorted.begin() + (count - 1);
    std::nth_element(sorted.begin(), bound, sorted.end(), std::greater<>());
    least = *bound;
  }
  const int found = kernels_.collect(x, n, least, scratch.ids.data());
  scratch.candidates.clear();
  for (int i = 0; i < found; i++) {
    const int32_t id = scratch.ids[as_size(i)];
    scratch.candidates.push_back({x[id], id});
  }
}

bool Sampler::is_heavier(const Candidate& a, const Candidate& b) {
  return a.weight > b.weight || (a.weight == b.weight && a.id < b.id);
}

Sampler::Candidate Sampler::last_of_largest(size_t count, Scratch& scratch) {
  scratch.work = scratch.candidates;
  const auto last = scratch.work.begin() + static_cast<ptrdiff_t>(count - 1);
  std::nth_element(scratch.work.begin(), last, scratch.work.end(), is_heavier);
  return *last;
}

// The lightest of the fewest candidates that weigh `target` together.
Sampler::Candidate Sampler::last_of_nucleus(double target, Scratch& scratch) {
  std::vector<Candidate>& work = scratch.work;
  work = scratch.candidates;
  double before = 0.0;
  if (work.size() > kManyCandidates) {
    std::vector<double>& sums = scratch.bucket_sums;
    sums.assign(kNumBuckets, 0.0);
    for (const Candidate& c : work) sums[bucket_of(c.weight)] += c.weight;
    size_t bucket = kNumBuckets - 1;
    for (; bucket > 0 && before + sums[bucket] < target; bucket--) before += sums[bucket];
    const auto is_outside = [&](const Candidate& c) { return bucket_of(c.weight) != bucket; };
    work.erase(std::remove_if(work.begin(), work.end(), is_outside), work.end());
    // Rounding may put the end into a bucket that nobody is in.
    if (work.empty()) return {0.0f, 0};
  }
  auto begin = work.begin();
  auto end = work.end();
  while (end - begin > 1) {
    const auto middle = begin + (end - begin) / 2;
    std::nth_element(begin, middle, end, is_heavier);
    double heavier = 0.0;
    for (auto c = begin; c != middle; c++) heavier += c->weight;
    if (before + heavier >= target) {
      end = middle;
    } else {
      before += heavier;
      begin = middle;
    }
  }
  return *begin;
}

void Sampler::keep_down_to(const Candidate& last, std::vector<Candidate>& candidates) {
  candidates.erase(
      std::remove_if(candidates.begin(), candidates.end(),
                     [&](const Candidate& c) { return is_heavier(last, c); }),
      candidates.end());
}

}  // namespace edgelora
