// Fully sharded parameters x full checkpointing on two ranks equal one process, in double precision, to 1e-9:
// the proof that the recipe carries both without a special case. Each rank is a process: this program started
// again.
#include <ATen/Functions.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "base/files.h"
#include "data/batches.h"
#include "distributed/process_group.h"
#include "plugin/loader.h"
#include "sharded.h"
#include "temporary_folder.h"
#include "train/train_step.h"

namespace optrush::testing {
namespace {
RunSpec tiny_spec(int64_t micro_batch, bool checkpointing) {
  RunSpec spec;
  spec.model = to_json(llama_from_json({{"vocab_size", 61},
                                        {"dim", 32},
                                        {"n_layers", 3},
                                        {"n_heads", 4},
                                        {"n_kv_heads", 2},
                                        {"ffn_dim", 44},
                                        {"tie_embeddings", true}},
                                       "test"));
  spec.train.dtype = "fp64";
  spec.train.micro_batch = micro_batch;
  spec.train.seq_len = 24;
  spec.train.lr = 1e-2;
  spec.plugin_path = {OPTRUSH_TEST_PLUGINS};
  if (checkpointing) spec.plugins = {{"activation_checkpointing", Json::object()}};
  return spec;
}

/// Losses, gradient norms and final parameters of four steps; on `ranks` ranks fully sharded.
Json train_four_steps(int64_t rank, int64_t ranks, bool checkpointing) {
  const RunSpec spec = tiny_spec(4 / ranks, checkpointing);
  auto plugins = load_plugins(spec);
  Recipe recipe(spec);
  apply_plugins(plugins, recipe);
  Sharded* sharded = nullptr;
  if (ranks > 1) shard_fully(recipe, sharded);
  recipe.mesh.settle(rank, ranks);
  if (ranks > 1) recipe.mesh.connect(rendezvous(static_cast<int>(rank), static_cast<int>(ranks)));
  Session session(recipe, at::kCPU);
  session.declare();
  session.place();
  session.make_ready();
  const Batches batches(spec, session.model(), recipe.mesh, at::kCPU);
  const auto clock = StepClock::make(at::kCPU);

  Json result;
  for (int64_t i = 0; i < 4; ++i) {
    clock->enter(Bucket::data);
    TrainStep step(session, *clock, batches.step(i));
    plain_schedule(step);
    clock->end_step();
    Tensor loss = step.outcome().loss;
    recipe.mesh.sum(loss, recipe.mesh.data());
    result["losses"].push_back(loss.item<double>());
    result["norms"].push_back(step.outcome().gradient_norm.item<double>());
    if (sharded != nullptr && sharded->gathered_bytes() != 0)
      throw Error("parameters stay gathered between steps");
  }
  for (const Shard& shard : session.data_parallel().shards())
    for (const Segment& segment : shard.segments) {
      const Tensor values =
          shard.data.flatten().slice(0, segment.at, segment.at + segment.end - segment.begin);
      for (int64_t i = 0; i < values.numel(); ++i)
        result["values"][segment.param->name + "/" + std::to_string(segment.begin + i)] =
            values[i].item<double>();
    }
  return result;
}

uint16_t free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  ::close(fd);
  return ntohs(address.sin_port);
}

pid_t start_rank(int rank, uint16_t port, const std::string& out) {
  std::vector<std::string> environment = {"OPTRUSH_TEST_OUT=" + out, "RANK=" + std::to_string(rank),
                                          "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1",
                                          "MASTER_PORT=" + std::to_string(port)};
  for (char** variable = environ; *variable != nullptr; ++variable) environment.emplace_back(*variable);
  std::vector<char*> pointers;
  for (auto& variable : environment) pointers.push_back(variable.data());
  pointers.push_back(nullptr);
  std::string self = "/proc/self/exe";
  char* arguments[] = {self.data(), nullptr};
  pid_t pid = 0;
  EXPECT_EQ(::posix_spawn(&pid, self.c_str(), nullptr, nullptr, arguments, pointers.data()), 0);
  return pid;
}

double relative(double a, double b) { return std::abs(a - b) / std::max(1e-12, std::abs(b)); }

TEST(Sharded, StageThreeWithFullCheckpointingEqualsOneProcess) {
  const TemporaryFolder folder;
  const Json expected = train_four_steps(0, 1, /*checkpointing=*/false);
  const auto port = free_port();
  const pid_t ranks[] = {start_rank(0, port, folder / "0.json"), start_rank(1, port, folder / "1.json")};
  for (const pid_t pid : ranks) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    ASSERT_EQ(status, 0);
  }
  size_t compared = 0;
  for (const char* name : {"0.json", "1.json"}) {
    const Json got = read_json(folder / name);
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_LT(relative(got["losses"][i], expected["losses"][i]), 1e-9) << name << " step " << i;
      EXPECT_LT(relative(got["norms"][i], expected["norms"][i]), 1e-9) << name << " step " << i;
    }
    for (const auto& [key, value] : got["values"].items()) {
      ASSERT_NEAR(value.get<double>(), expected["values"][key].get<double>(), 1e-9) << key;
      ++compared;
    }
  }
  // Each element lives on exactly one rank.
  EXPECT_EQ(compared, expected["values"].size());
}
}  // namespace
}  // namespace optrush::testing

int main(int argc, char** argv) {
  if (const char* out = std::getenv("OPTRUSH_TEST_OUT")) {
    try {
      optrush::write_json(out, optrush::testing::train_four_steps(std::stoi(std::getenv("RANK")), 2, true));
    } catch (const std::exception& e) {
      std::cerr << e.what() << "\n";
      return 1;
    }
    return 0;
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
