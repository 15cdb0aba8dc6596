#include "mesh_plan/config_traffic.h"

#include <algorithm>

namespace optrush::mesh_plan {
namespace {
/// Bytes that a gather or a scatter of `bytes` sends.
double round_of(double bytes, int64_t ranks) { return bytes * real(ranks - 1) / real(ranks); }

class Counting {
 public:
  Counting(const ParallelConfig& mix, const TrainingProblem& problem, const StageShare& stage,
           const Hardware& hardware)
      : mix_(mix),
        problem_(problem),
        stage_(stage),
        hardware_(hardware),
        work_(problem.model),
        bytes_(problem.precision),
        micro_batches_(real(mix.accumulation)),
        stream_(real(mix.micro_batch * problem.seq_len) / real(mix.cp) * work_.width * bytes_.stream) {}

  std::vector<MixTraffic> all() {
    if (mix_.replicas() > 1) replicas();
    if (mix_.ep > 1) rows();
    if (mix_.tp > 1) cuts();
    if (mix_.cp > 1) keys();
    if (mix_.pp > 1) boundaries();
    return std::move(traffic_);
  }

 private:
  void add(const char* dimension, const char* what, double bytes, double rounds, const Ring& ring) {
    traffic_.push_back({dimension, what, bytes, rounds, ring});
  }

  void replicas() {
    const LocalParameters local = local_parameters(mix_, work_, stage_);
    const double units = stage_.blocks + (stage_.embedding ? 1 : 0) + (stage_.head ? 1 : 0);
    // Experts are reduced and gathered over fewer ranks.
    const int64_t having = mix_.replicas() / mix_.ep;
    const double one = bytes_.gradients(mix_.accumulation), of_experts = local.experts * one;
    const double kept = local.total * one;
    if (mix_.stage == 0) {
      const Ring ring = ring_of(hardware_, mix_.tp, mix_.replicas());
      add("dp", "gradients", 2 * (round_of(kept - of_experts, ring.ranks) + round_of(of_experts, having)),
          2 * units, ring);
      return;
    }
    const Ring ring = ring_of(hardware_, mix_.tp, mix_.shard_ranks);
    const double gathers = mix_.stage == 3 ? 2 * micro_batches_ : 1;
    const double reductions = mix_.stage >= 2 ? micro_batches_ : 1;
    // An embedding is gathered in its stored type, and once more for the head if the head has the same
    // matrix.
    const bool again = mix_.stage == 3 && work_.tied && stage_.embedding && stage_.head;
    const double own = stage_.embedding ? local.vocabulary * (bytes_.weight - bytes_.operand) : 0;
    const double whole = local.total * bytes_.operand + own + (again ? local.vocabulary * bytes_.weight : 0);
    const int64_t near = mix_.shard_ranks / mix_.ep;
    const auto round = [&](double all, double experts) {
      return round_of(all - experts, ring.ranks) + round_of(experts, near);
    };
    add("dp", "parameters", gathers * round(whole, local.experts * bytes_.operand), gathers * units, ring);
    add("dp", "gradients", reductions * round(kept, of_experts), reductions * units, ring);
    const int64_t copies = mix_.replicas() / mix_.shard_ranks;
    if (copies > 1)
      add("dp", "pieces", 2 * round_of(kept / real(mix_.shard_ranks), copies), 2 * units,
          ring_of(hardware_, mix_.tp * mix_.shard_ranks, copies));
  }

  /// Assumes that routers send the same number of rows to each rank.
  void rows() {
    const double tokens = real(mix_.micro_batch * problem_.seq_len) / real(mix_.cp);
    const double each = tokens * work_.rows * work_.width * bytes_.activation;
    const double times = micro_batches_ * stage_.blocks * (4 + 2 * share_of(mix_.recompute));
    add("ep", "rows", times * round_of(each, mix_.ep), times, ring_of(hardware_, mix_.tp, mix_.ep));
  }

  /// Results of products are reduced in their type; results of mixtures and all gradients in the type of the
  /// stream.
  void cuts() {
    const double ends = (stage_.embedding ? 1 : 0) + (stage_.head ? 1 : 0);
    const double again = share_of(mix_.recompute);
    const double products = (1 + again) * (2 - work_.mixtures), others = 2 + (1 + again) * work_.mixtures;
    const double product = stream_ / bytes_.stream * bytes_.activation;
    const double bytes = stage_.blocks * (products * product + others * stream_) + ends * stream_;
    const double sums = micro_batches_ * ((products + others) * stage_.blocks + ends);
    add("tp", "sums", micro_batches_ * 2 * round_of(bytes, mix_.tp), 2 * sums,
        ring_of(hardware_, 1, mix_.tp));
  }

  void keys() {
    const double rounds = micro_batches_ * stage_.blocks * (3 + share_of(mix_.recompute));
    const double messages =
        micro_batches_ * stage_.blocks * real(mix_.cp - 1) * ring_messages(mix_, problem_);
    const Ring ring = ring_of(hardware_, mix_.tp * mix_.ep, mix_.cp);
    add("cp", "keys", messages * ring_message(mix_, problem_), rounds, ring);
  }

  void boundaries() {
    // A chunk sends in both directions. With two stages, one has the model's begin and the other its end,
    // where nothing is sent.
    const double sides = 2 * real(mix_.chunks) - (mix_.pp == 2 ? 1 : 0);
    const Ring ring = ring_of(hardware_, mix_.devices() / mix_.pp, mix_.pp);
    const double messages = micro_batches_ * sides;
    add("pp", "boundaries", messages * stream_ / real(mix_.tp), messages, ring);
    if (work_.tied)
      add("pp", "tied embedding", work_.embedding / real(mix_.tp) * bytes_.gradients(mix_.accumulation), 1,
          ring);
  }

  const ParallelConfig& mix_;
  const TrainingProblem& problem_;
  const StageShare& stage_;
  const Hardware& hardware_;
  const DecoderWork work_;
  const NumberBytes bytes_;
  const double micro_batches_, stream_;
  std::vector<MixTraffic> traffic_;
};
}  // namespace

double MixTraffic::seconds() const {
  const bool neighbours = dimension == "cp" || dimension == "pp";
  return bytes / (neighbours ? ring.hop : ring.bandwidth) +
         rounds * (dimension == "pp" ? ring.latency / real(ring.ranks - 1) : ring.latency);
}

std::vector<MixTraffic> traffic_of(const ParallelConfig& mix, const TrainingProblem& problem,
                                   const StageShare& stage, const Hardware& hardware) {
  return Counting(mix, problem, stage, hardware).all();
}

double ring_message(const ParallelConfig& mix, const TrainingProblem& problem) {
  const DecoderWork work(problem.model);
  const double tokens = real(mix.micro_batch * problem.seq_len) / real(mix.cp);
  return 2 * tokens * work.key_width / std::min(real(mix.tp), work.key_heads) *
         NumberBytes(problem.precision).activation;
}

double ring_messages(const ParallelConfig& mix, const TrainingProblem& problem) {
  constexpr double kGradient = 4;  // bytes of a number, in any precision
  return 2 + share_of(mix.recompute) + kGradient / NumberBytes(problem.precision).activation;
}
}  // namespace optrush::mesh_plan
