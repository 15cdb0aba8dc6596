// Synthetic reports that tests share.
#include "report_fixture.h"

namespace optrush::test {
namespace {
constexpr double kGiB = 1024.0 * 1024 * 1024;
}  // namespace

SyntheticReport short_ladder() {
  SyntheticReport report("short", 3);
  report.ladder(
      {rung("bf16 autocast", "mixed_precision", {{"dtype", "bf16"}}), rung("fused AdamW", "fused_adamw")});
  report["bf16 autocast"] = {.tokens_per_second = 2000, .peak_bytes = 0.8 * kGiB, .loss_error = 1e-3};
  report["fused AdamW"] = {.tokens_per_second = 2001, .peak_bytes = 0.8 * kGiB, .loss_error = 1.1e-3};
  report.drift_tokens_per_second = 992;
  return report;
}

SyntheticReport validated() {
  SyntheticReport report = short_ladder();
  report.experiment.name = "validated";
  report.experiment.base.validate.every = 5;
  report.experiment.target_loss = 4.84;
  report.experiment.trace = true;
  report["fused AdamW"].loss_error = 0.004;
  return report;
}

SyntheticReport long_ladder() {
  SyntheticReport report("long", 3);
  Rung larger = setting("micro-batch 8", {{"train", {{"micro_batch", 8}}}});
  larger.without = {"wrong_mask", "too_large", "segfaults"};
  report.ladder(
      {rung("bf16 autocast", "mixed_precision", {{"dtype", "bf16"}}),
       rung("fused AdamW | one kernel for *every* <parameter>", "fused_adamw"),
       rung("a rung with a name that is so long that no chart has room for all of it", "flash_attention"),
       rung("wrong mask", "wrong_mask"), rung("too large", "too_large"), rung("segfaults", "segfaults"),
       larger, rung("checkpointing", "activation_checkpointing", {{"policy", "full"}}),
       rung("accumulation 4", "gradient_accumulation", {{"steps", 4}}),
       rung("LoRA rank 8", "lora", {{"rank", 8}}), rung("faster than light", "faster_than_light"),
       rung("not run", "not_run")});
  report.experiment.price_per_hour = 2.5;
  report.drift_tokens_per_second = 990;
  report["bf16 autocast"] = {.tokens_per_second = 2070, .peak_bytes = 0.8 * kGiB, .loss_error = 1e-3};
  report["fused AdamW | one kernel for *every* <parameter>"] = {
      .tokens_per_second = 2200, .peak_bytes = 0.8 * kGiB, .loss_error = 1.1e-3};
  report["a rung with a name that is so long that no chart has room for all of it"] = {
      .tokens_per_second = 2205, .peak_bytes = 0.7 * kGiB, .loss_error = 1.2e-3};
  report["wrong mask"] = {.tokens_per_second = 4000, .peak_bytes = 0.6 * kGiB, .loss_error = 0.1};
  report["too large"] = {.status = "oom",
                         .reason = "out of memory in the backward\nuse a smaller micro_batch"};
  report["segfaults"] = {.tokens_per_second = 2200,
                         .status = "crashed",
                         .reason = "ended by SIGSEGV (segmentation fault)",
                         .bad_round = 1};
  for (const char* name : {"micro-batch 8", "checkpointing", "accumulation 4", "LoRA rank 8"})
    report[name] = {.tokens_per_second = 2900, .peak_bytes = 1.2 * kGiB, .loss_error = 1.2e-3};
  report["checkpointing"].tokens_per_second = 2400;
  report["checkpointing"].peak_bytes = 0.7 * kGiB;
  report["accumulation 4"].tokens_per_second = 2500;
  report["accumulation 4"].probe_loss_error = 1e-5;
  report["faster than light"] = {.tokens_per_second = 40000, .loss_error = 1.2e-3};
  report["not run"] = {.rounds = 0, .has_plan = false};
  return report;
}

SyntheticReport ablation() {
  SyntheticReport report("ablation", 4);
  report.experiment.parts.push_back(
      {Arrangement::ablation,
       {rung("fused AdamW", "fused_adamw"), rung("FlashAttention", "flash_attention"),
        rung("bf16", "mixed_precision")},
       {}});
  report["full"].tokens_per_second = 2400;
  report["without fused AdamW"].tokens_per_second = 2200;
  report["without FlashAttention"].tokens_per_second = 2400;
  report["without bf16"].tokens_per_second = 1200;
  report["fused AdamW alone"].tokens_per_second = 1050;
  report["FlashAttention alone"].tokens_per_second = 1100;
  report["bf16 alone"].tokens_per_second = 1900;
  report["without bf16"].peak_bytes *= 2;
  report["bf16 alone"].peak_bytes *= 0.75;
  for (const char* name : {"full", "without fused AdamW", "without FlashAttention", "bf16 alone"})
    report[name].loss_error = 1e-3;
  return report;
}

SyntheticReport scaling() {
  SyntheticReport report("scaling", 3);
  const auto ranks = [](const std::string& name, const std::string& plugin, int64_t size,
                        int64_t micro_batch) {
    Rung made = setting(name, {{"train", {{"world_size", size}, {"micro_batch", micro_batch}}}});
    if (!plugin.empty()) made.plugins = {{plugin, Json::object()}};
    return made;
  };
  Rung sharded = ranks("sharded, 2 ranks", "shard", 2, 4);
  sharded.over = "FlashAttention";
  report.ladder({rung("FlashAttention", "flash_attention"), ranks("2 ranks", "spread", 2, 4),
                 ranks("4 ranks", "", 4, 4), ranks("2 ranks, strong", "", 2, 2),
                 ranks("4 ranks, strong", "", 4, 1), sharded, ranks("sharded, 4 ranks", "", 4, 4)});
  report["FlashAttention"].tokens_per_second = 1200;
  report["2 ranks"] = {.tokens_per_second = 2300, .exposed_share = 0.04};
  report["4 ranks"] = {.tokens_per_second = 4200, .exposed_share = 0.12, .straggler = 1.25};
  report["2 ranks, strong"] = {.tokens_per_second = 1900, .exposed_share = 0.2};
  report["4 ranks, strong"] = {.tokens_per_second = 2500, .exposed_share = 0.45};
  report["sharded, 2 ranks"] = {.tokens_per_second = 2000, .exposed_share = 0.16};
  report["sharded, 4 ranks"] = {.status = "failed", .reason = "rank 2 (b): the connection was lost"};
  return report;
}

SyntheticReport grid() {
  SyntheticReport report("grid", 3);
  Part part{
      .arrangement = Arrangement::grid,
  };
  part.axes.resize(2);
  for (const int64_t length : {256, 512, 1024, 4096})
    part.axes[0].push_back(setting("s" + std::to_string(length), {{"train", {{"seq_len", length}}}}));
  part.axes[1] = {rung("plain", ""), rung("flash", "flash_attention")};
  part.axes[1][0].plugins.clear();
  part.view = {.axes = {"sequence", "attention"},
               .columns = {"forward_time", "peak_memory"},
               .against = "plain",
               .x = "train.seq_len",
               .curves = {"peak_memory", "tokens_per_second"}};
  report.experiment.parts.push_back(part);
  for (const auto& rung : part.axes[0]) {
    const double length = rung.settings["train"]["seq_len"].get<double>();
    report[rung.name + " + plain"].peak_bytes = 5e8 + 1e4 * length + 1600 * length * length;
    report[rung.name + " + flash"].peak_bytes = 5e8 + 2e4 * length;
    report[rung.name + " + plain"].tokens_per_second = 4e5 / length;
    report[rung.name + " + flash"].tokens_per_second = 8e5 / length;
  }
  report["s4096 + plain"] = {.status = "oom", .reason = "out of memory"};
  return report;
}

SyntheticReport three_rungs() {
  SyntheticReport report("three", 3);
  report.ladder({rung("one", "fused_adamw"), rung("two", "flash_attention"),
                 rung("three", "activation_checkpointing")});
  report["one"] = {.tokens_per_second = 1500};
  report["two"] = {.tokens_per_second = 1800};
  report["three"] = {.tokens_per_second = 1600, .peak_bytes = 1 << 29};
  return report;
}
}  // namespace optrush::test
