// Distributed data parallelism (Li et al., "PyTorch Distributed", VLDB 2020, arXiv:2006.15704): every rank
// keeps all parameters and trains on different sequences. Gradients are summed over the ranks. c10d's
// Reducer puts them into buckets, in the order in which the backward computes them, and sends each full
// bucket while the backward continues. Gradients lie in the buckets, so there is one copy of them. With
// gradient accumulation only the last micro-batch of a step sends.
//
// A rank sends 2 (N - 1) / N times the gradients' bytes per step, for any batch. It does not pay if the link
// needs more time for these bytes than the backward of a rank's sequences takes (slow links, small
// micro-batches: accumulate first). It does not help if parameters, gradients and optimizer state do not fit
// on one device: shard them instead. Larger buckets use the link better but are sent later.
//
// compress = "bf16" sends half the bytes of fp32 gradients. It rounds each rank's gradient, and each
// partial sum, to 8 bits: relative errors of about 2^-9 per rank in every gradient.
#include "optrush/plugin.h"
#include "replicated.h"

namespace {
using namespace optrush;

class Ddp final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options& options) override {
    if (recipe.spec().train.world_size == 1) return;  // one device, as it is
    recipe.data_parallel.replace(
        [buckets = bucket_options(options)](Run& run) { return ddp::make_replicated(run, buckets); },
        {.trace = Trace::opaque, .offers = {feature::deferred_weight_gradients}, .predictable = true});
  }

 private:
  static ddp::BucketOptions bucket_options(const Options& options) {
    const auto bytes = [&](const char* name) {
      return static_cast<int64_t>(options.number(name) * 1024 * 1024);
    };
    ddp::BucketOptions buckets{.first_bytes = bytes("first_bucket_mb"), .bytes = bytes("bucket_mb")};
    if (options.string("compress") == "bf16") buckets.wire = at::kBFloat16;
    return buckets;
  }
};
}  // namespace

OPTRUSH_PLUGIN(Ddp, R"json({
  "name": "ddp", "version": "0.1.0", "kind": "parallelism", "effect": "rounding",
  "summary": "whole parameters on every rank; gradients are summed in buckets during the backward",
  "doc": "With train.world_size = 1 it changes nothing. compress = \"bf16\" rounds gradients to 8 significant bits.",
  "conflicts": ["cuda_graphs", "fsdp"],
  "options": [
    {"name": "bucket_mb", "type": "number", "default": 25, "min": 0.0001, "max": 65536, "doc": "bucket size: MiB of gradients that are sent together"},
    {"name": "first_bucket_mb", "type": "number", "default": 1, "min": 0.0001, "max": 65536, "doc": "size of the first bucket of a step; a small one is sent early"},
    {"name": "compress", "type": "string", "default": "none", "choices": ["none", "bf16"], "effects": {"bf16": "precision"}, "doc": "type of the gradients in communication: none keeps their type"}
  ]
})json");
