#include "launch/ranks/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "../../support/error_of.h"

namespace optrush {
namespace {
using testing::error_of;
using ::testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

std::optional<Launched> launcher_of(const Variables& variables) {
  return launched([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}
Variables variables_with(Variables variables, const Variables& changes) {
  for (const auto& [name, value] : changes) variables[name] = value;
  return variables;
}

const Variables kTorchrun = {{"RANK", "5"},
                             {"WORLD_SIZE", "8"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "4"},
                             {"MASTER_ADDR", "node0"},
                             {"MASTER_PORT", "29400"},
                             {"TORCHELASTIC_RUN_ID", "job"}};

TEST(Launcher, SingleProcessHasNoLauncher) {
  EXPECT_FALSE(launcher_of({}));
  EXPECT_FALSE(launcher_of({{"RANK", "3"}})) << "another program may set this variable";
  EXPECT_FALSE(
      launcher_of({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}}))
      << "a single process may start ranks itself";
}

TEST(Launcher, Torchrun) {
  const auto found = launcher_of(kTorchrun);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->launcher, "torchrun");
  EXPECT_EQ(found->rank, 5);
  EXPECT_EQ(found->size, 8);
  EXPECT_EQ(found->local_rank, 1);
  EXPECT_EQ(found->local_size, 4);
  EXPECT_EQ(found->address, "node0");
  EXPECT_EQ(found->ports.front(), 29401) << "torchrun listens at MASTER_PORT";
  EXPECT_EQ(found->job, "job:29400");
  EXPECT_EQ(launcher_of(variables_with(kTorchrun, {{"TORCHELASTIC_RESTART_COUNT", "2"}}))->job,
            "job:29400:2");
}

TEST(Launcher, SingleMachineUsesTheLoopbackAddress) {
  EXPECT_EQ(launcher_of(variables_with(kTorchrun, {{"LOCAL_WORLD_SIZE", "8"}}))->address, "127.0.0.1");
}

TEST(Launcher, TheControlPortCanBeChosen) {
  EXPECT_EQ(launcher_of(variables_with(kTorchrun, {{"OPTRUSH_CONTROL_PORT", "4000"}}))->ports.front(), 4000);
}

TEST(Launcher, InvalidVariablesAreNamed) {
  const auto error = [](const Variables& changes) {
    return error_of([&] { launcher_of(variables_with(kTorchrun, changes)); });
  };
  EXPECT_THAT(error({{"RANK", "8"}}), HasSubstr("RANK is '8', but must be an integer from 0 to 7"));
  EXPECT_THAT(error({{"RANK", "one"}}), HasSubstr("RANK is 'one'"));
  EXPECT_THAT(error({{"LOCAL_RANK", "4"}}), HasSubstr("LOCAL_RANK is '4'"));
  EXPECT_THAT(error({{"LOCAL_WORLD_SIZE", "9"}}), HasSubstr("LOCAL_WORLD_SIZE is '9'"));
  EXPECT_THAT(error({{"MASTER_PORT", "65535"}}), HasSubstr("MASTER_PORT"));
  EXPECT_THAT(error({{"WORLD_SIZE", "99999999999999999999"}}), HasSubstr("WORLD_SIZE"));
  EXPECT_THAT(error_of([] {
                launcher_of({{"RANK", "0"}, {"WORLD_SIZE", "2"}});
              }),
              HasSubstr("LOCAL_WORLD_SIZE is not set, but torchrun"));
}

const Variables kMpirun = {{"OMPI_COMM_WORLD_RANK", "1"},
                           {"OMPI_COMM_WORLD_SIZE", "2"},
                           {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                           {"PMIX_NAMESPACE", "12"}};

TEST(Launcher, Mpirun) {
  const auto found = launcher_of(kMpirun);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->launcher, "mpirun");
  EXPECT_EQ(found->rank, 1);
  EXPECT_EQ(found->local_size, 2);
  EXPECT_EQ(found->address, "127.0.0.1");
  EXPECT_GE(found->ports.front(), 15000) << "the port depends on the job";
  EXPECT_LT(found->ports.front(), 25000);
  EXPECT_EQ(launcher_of(variables_with(kMpirun, {{"MASTER_PORT", "29500"}}))->ports.front(), 29501);
  EXPECT_EQ(found->job, "12");
}

TEST(Launcher, MpirunOverSeveralMachinesNeedsAnAddress) {
  const auto wide =
      variables_with(kMpirun, {{"OMPI_COMM_WORLD_LOCAL_RANK", "0"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}});
  EXPECT_THAT(error_of([&] { launcher_of(wide); }), HasSubstr("mpirun -x MASTER_ADDR=HOST"));
  EXPECT_EQ(launcher_of(variables_with(wide, {{"MASTER_ADDR", "node3"}}))->address, "node3");
}

const Variables kSrun = {{"SLURM_PROCID", "3"},
                         {"SLURM_NTASKS", "7"},
                         {"SLURM_LOCALID", "0"},
                         {"SLURM_NODEID", "1"},
                         {"SLURM_TASKS_PER_NODE", "3(x2),1"},
                         {"SLURM_JOB_NODELIST", "gpu[07,09-12],login"},
                         {"SLURM_JOB_ID", "123456"}};

TEST(Launcher, Srun) {
  const auto found = launcher_of(kSrun);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->launcher, "srun");
  EXPECT_EQ(found->rank, 3);
  EXPECT_EQ(found->size, 7);
  EXPECT_EQ(found->local_rank, 0);
  EXPECT_EQ(found->local_size, 3);
  EXPECT_EQ(found->address, "gpu07");
  EXPECT_EQ(found->job, "123456.0");
  EXPECT_EQ(
      launcher_of(variables_with(kSrun, {{"SLURM_RESTART_COUNT", "1"}, {"SLURM_CLUSTER_NAME", "c"}}))->job,
      "123456.0:1:c");
}

/// Two jobs on one machine never share all ports. All processes of a job choose the same ports.
TEST(Launcher, PortsFollowFromTheJob) {
  std::set<std::vector<uint16_t>> all;
  for (int job = 0; job < 300; ++job)
    for (int step = 0; step < 3; ++step) {
      const auto of_rank = [&](const char* rank) {
        return launcher_of(variables_with(kSrun, {{"SLURM_JOB_ID", std::to_string(job)},
                                                  {"SLURM_STEP_ID", std::to_string(step)},
                                                  {"SLURM_PROCID", rank}}));
      };
      auto ports = of_rank("0")->ports;
      EXPECT_EQ(ports.size(), 8U);
      EXPECT_EQ(std::set<uint16_t>(ports.begin(), ports.end()).size(), ports.size());
      EXPECT_GE(std::ranges::min(ports), 15000);
      EXPECT_LT(std::ranges::max(ports), 25000);
      EXPECT_EQ(of_rank("3")->ports, ports);
      std::ranges::sort(ports);
      EXPECT_TRUE(all.insert(ports).second) << job << "." << step;
    }
}

TEST(Launcher, GivenPortTakesPrecedence) {
  const auto found = launcher_of(variables_with(kSrun, {{"MASTER_PORT", "4000"}}));
  EXPECT_EQ(found->ports.front(), 4001);
  EXPECT_EQ(found->ports.size(), 9U);
  const auto control = launcher_of(variables_with(kSrun, {{"OPTRUSH_CONTROL_PORT", "4000"}}));
  EXPECT_EQ(control->ports, std::vector<uint16_t>{4000}) << "there is only one port";
  Variables by_hand = kTorchrun;
  by_hand.erase("TORCHELASTIC_RUN_ID");
  EXPECT_EQ(launcher_of(by_hand)->ports.size(), 1U) << "the job of another port is unknown";
}

TEST(Launcher, StepOfSrunTakesPrecedenceOverItsJob) {
  const auto found = launcher_of(variables_with(kSrun, {{"SLURM_STEP_NUM_TASKS", "4"},
                                                        {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"},
                                                        {"SLURM_STEP_NODELIST", "gpu[09-10]"},
                                                        {"SLURM_STEP_ID", "2"}}));
  EXPECT_EQ(found->size, 4);
  EXPECT_EQ(found->local_size, 2);
  EXPECT_EQ(found->address, "gpu09");
  EXPECT_EQ(found->job, "123456.2");
}

TEST(Launcher, TasksByNodeMayBeOneNumber) {
  Variables plain = variables_with(kSrun, {{"SLURM_NTASKS_PER_NODE", "4"}, {"SLURM_NTASKS", "8"}});
  plain.erase("SLURM_TASKS_PER_NODE");
  EXPECT_EQ(launcher_of(plain)->local_size, 4);
}

TEST(Launcher, BatchScriptIsNotATaskOfItsJob) {
  const auto batch = variables_with(kSrun, {{"SLURM_PROCID", "0"}, {"ENVIRONMENT", "BATCH"}});
  EXPECT_FALSE(launcher_of(batch));
  EXPECT_TRUE(launcher_of(variables_with(batch, {{"SLURM_STEP_NUM_TASKS", "4"}})))
      << "srun inside of the batch job";
}

TEST(Launcher, TheInnermostLauncherCounts) {
  EXPECT_EQ(launcher_of(variables_with(kSrun, kMpirun))->launcher, "mpirun");
  EXPECT_EQ(launcher_of(variables_with(kSrun, kTorchrun))->launcher, "torchrun");
}

TEST(FirstHost, ParsesSlurmHostLists) {
  EXPECT_EQ(first_host("node1"), "node1");
  EXPECT_EQ(first_host("node1,node2"), "node1");
  EXPECT_EQ(first_host("node[01-04,07],gpu3"), "node01");
  EXPECT_EQ(first_host("n[3,5]"), "n3");
  EXPECT_EQ(first_host("rack[2-3]node[10-11]-ib,x"), "rack2node10-ib");
  EXPECT_EQ(first_host("n[12"), "n12");
  EXPECT_EQ(first_host(""), "");
}

TEST(TasksOfNode, ParsesSlurmTaskLists) {
  EXPECT_EQ(tasks_of_node("4", 0), 4);
  EXPECT_EQ(tasks_of_node("2(x3),1", 2), 2);
  EXPECT_EQ(tasks_of_node("2(x3),1", 3), 1);
  EXPECT_EQ(tasks_of_node("2(x3),1", 4), std::nullopt);
  EXPECT_EQ(tasks_of_node("2(x", 0), std::nullopt);
  EXPECT_EQ(tasks_of_node("two", 0), std::nullopt);
}
}  // namespace
}  // namespace optrush
