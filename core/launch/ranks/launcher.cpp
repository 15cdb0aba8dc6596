#include "launch/ranks/launcher.h"

#include <algorithm>
#include <charconv>

#include "machine/environment.h"
#include "machine/socket.h"
#include "optrush/error.h"

namespace optrush {
namespace {
constexpr int64_t kUsualPort = 29500, kLastPort = 65534;
constexpr int64_t kMostRanks = 1'000'000;
/// Range of ports derived from a job's name: above those of services, below those that the kernel assigns.
constexpr int64_t kFirstJobPort = 15000, kJobPorts = 10000;
constexpr size_t kChoices = 8;

/// Ports for a job, equal in all its processes and different for most other jobs. If two jobs meet, rank 0 of
/// one finds the port in use, the other ranks learn that it belongs to another job, and both try the next
/// port.
std::vector<uint16_t> ports_of(const std::string& job) {
  uint64_t hash = 14695981039346656037U;  // FNV-1a
  const auto mix = [&](unsigned char byte) { hash = (hash ^ byte) * 1099511628211U; };
  for (const char c : job) mix(static_cast<unsigned char>(c));
  std::vector<uint16_t> ports;
  for (unsigned char turn = 0; ports.size() < kChoices; ++turn) {
    mix(turn);
    const auto port = static_cast<uint16_t>(kFirstJobPort + static_cast<int64_t>((hash >> 24U) % kJobPorts));
    if (std::ranges::find(ports, port) == ports.end()) ports.push_back(port);
  }
  return ports;
}

std::optional<int64_t> integer(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool is_count(const std::optional<int64_t>& number) { return number && *number > 0 && *number <= kMostRanks; }

/// Reads the environment variables of a launcher.
struct Reader {
  const Lookup& lookup;
  Launched found;

  std::optional<int64_t> number(const std::string& name, int64_t least, int64_t most) const {
    const auto text = lookup(name);
    if (!text) return std::nullopt;
    const auto value = integer(*text);
    if (value && *value >= least && *value <= most) return value;
    throw Error(ErrorCode::invalid_value,
                name + " is '" + *text + "', but must be an integer from " + std::to_string(least) + " to " +
                    std::to_string(most),
                "it comes from " + found.launcher + "; unset it if this process was started alone",
                "environment");
  }
  /// A variable that the launcher always sets.
  int64_t needed(const std::string& name, int64_t least, int64_t most) const {
    if (const auto value = number(name, least, most)) return *value;
    throw Error(ErrorCode::wrong_ranks, name + " is not set, but " + found.launcher + " started this process",
                "start all processes with " + found.launcher + ", or set the variable", "environment");
  }
  void read_ranks(const std::string& rank, const std::string& size) {
    found.size = needed(size, 1, kMostRanks);
    found.rank = needed(rank, 0, found.size - 1);
  }
  void read_local_ranks(const std::string& rank, const std::string& size) {
    found.local_size = needed(size, 1, found.size);
    found.local_rank = needed(rank, 0, found.local_size - 1);
  }

  /// Adds the address of rank 0. `address` comes from the launcher, if it sets one. `job` identifies the job
  /// among all jobs at the same time; "" if the launcher has no name for it.
  Launched at(std::optional<std::string> address, const std::string& job) {
    if (const auto given = lookup("MASTER_ADDR")) address = given;
    const auto port = number("MASTER_PORT", 1, kLastPort);
    // On a single machine, the loopback always works.
    if (found.local_size == found.size) address = kLoopback;
    if (!address)
      throw Error(ErrorCode::wrong_ranks,
                  "MASTER_ADDR is not set, but " + found.launcher + " started ranks on several machines",
                  "set it to rank 0's machine: mpirun -x MASTER_ADDR=HOST ...", "environment");
    found.address = *address;
    found.job = job;
    const auto own = number("OPTRUSH_CONTROL_PORT", 1, kLastPort);
    if (!own && !job.empty()) found.ports = ports_of(job);
    if (own || port || job.empty())
      found.ports.insert(found.ports.begin(),
                         static_cast<uint16_t>(own.value_or(port.value_or(kUsualPort) + 1)));
    return found;
  }
};

Launched by_torchrun(const Lookup& lookup) {
  Reader reader{lookup, {.launcher = "torchrun"}};
  reader.read_ranks("RANK", "WORLD_SIZE");
  reader.read_local_ranks("LOCAL_RANK", "LOCAL_WORLD_SIZE");
  // Several jobs of a machine may have one name, but not one port. A restart makes another job.
  std::string job = reader.lookup("TORCHELASTIC_RUN_ID").value_or("");
  for (const char* more : {"MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"})
    if (const auto value = reader.lookup(more); value && !job.empty()) job += ":" + *value;
  return reader.at(std::nullopt, job);
}

Launched by_mpirun(const Lookup& lookup) {
  Reader reader{lookup, {.launcher = "mpirun"}};
  reader.read_ranks("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
  reader.read_local_ranks("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE");
  return reader.at(std::nullopt, reader.lookup("PMIX_NAMESPACE").value_or(""));
}

int64_t slurm_tasks_here(const Reader& reader, int64_t size) {
  const int64_t node = reader.number("SLURM_NODEID", 0, 1'000'000).value_or(0);
  for (const char* name : {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"})
    if (const auto list = reader.lookup(name))
      if (const auto tasks = tasks_of_node(*list, node); tasks && *tasks <= size) return *tasks;
  if (const auto tasks = reader.number("SLURM_NTASKS_PER_NODE", 1, size)) return *tasks;
  return size;
}

Launched by_srun(const Lookup& lookup) {
  Reader reader{lookup, {.launcher = "srun"}};
  const bool of_step = reader.lookup("SLURM_STEP_NUM_TASKS").has_value();
  reader.read_ranks("SLURM_PROCID", of_step ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS");
  Launched& found = reader.found;
  found.local_size = slurm_tasks_here(reader, found.size);
  found.local_rank = reader.needed("SLURM_LOCALID", 0, found.local_size - 1);
  const int64_t job = reader.number("SLURM_JOB_ID", 0, UINT32_MAX).value_or(0);
  const int64_t step = reader.number("SLURM_STEP_ID", 0, UINT32_MAX).value_or(0);
  auto hosts = reader.lookup("SLURM_STEP_NODELIST");
  if (!hosts) hosts = reader.lookup("SLURM_JOB_NODELIST");
  std::string name = std::to_string(job) + "." + std::to_string(step);
  // A requeued job and a job of another cluster are other jobs.
  for (const char* more : {"SLURM_RESTART_COUNT", "SLURM_CLUSTER_NAME"})
    if (const auto value = reader.lookup(more)) name += ":" + *value;
  return reader.at(hosts ? std::optional(first_host(*hosts)) : std::nullopt, name);
}

/// Whether this is the script of a batch job, which runs once with the variables of the first task.
bool in_batch_script(const Lookup& lookup) {
  return lookup("ENVIRONMENT") == "BATCH" && !lookup("SLURM_STEP_NUM_TASKS");
}
}  // namespace

std::optional<Launched> launched(const Lookup& lookup) {
  std::optional<Launched> found;
  if (lookup("RANK") && lookup("WORLD_SIZE"))
    found = by_torchrun(lookup);
  else if (lookup("OMPI_COMM_WORLD_RANK"))
    found = by_mpirun(lookup);
  else if (lookup("SLURM_PROCID") && !in_batch_script(lookup))
    found = by_srun(lookup);
  // A single process may start ranks itself.
  return found && found->size > 1 ? found : std::nullopt;
}

std::optional<Launched> launched() {
  return launched([](const std::string& name) -> std::optional<std::string> {
    const std::string value = environment_variable(name.c_str());
    return value.empty() ? std::nullopt : std::optional(value);
  });
}

std::string first_host(const std::string& list) {
  std::string host;
  for (size_t at = 0; at < list.size() && list[at] != ',';) {
    if (list[at] != '[') {
      host += list[at++];
      continue;
    }
    const size_t begin = at + 1;
    host += list.substr(begin, list.find_first_of(",-]", begin) - begin);
    const size_t end = list.find(']', begin);
    if (end == std::string::npos) break;
    at = end + 1;
  }
  return host;
}

std::optional<int64_t> tasks_of_node(const std::string& list, int64_t node) {
  int64_t first = 0;
  for (size_t start = 0; start < list.size();) {
    const size_t end = std::min(list.find(',', start), list.size());
    const std::string part = list.substr(start, end - start);
    const size_t times = part.find("(x");
    const auto tasks = integer(part.substr(0, times));
    std::optional<int64_t> nodes = 1;
    if (times != std::string::npos)
      nodes = part.ends_with(')') ? integer(part.substr(times + 2, part.size() - times - 3)) : std::nullopt;
    if (!is_count(tasks) || !is_count(nodes)) return std::nullopt;
    first += *nodes;
    if (node < first) return tasks;
    start = end + 1;
  }
  return std::nullopt;
}
}  // namespace optrush
