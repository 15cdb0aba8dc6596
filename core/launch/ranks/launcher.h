#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace optrush {
/// The place of this process in a job of several processes that a launcher has started.
struct Launched {
  std::string launcher;  ///< torchrun, mpirun or srun
  int64_t rank = 0, size = 1;
  int64_t local_rank = 0, local_size = 1;  ///< on this machine
  std::string address;                     ///< of rank 0's machine
  uint16_t port = 0;                       ///< where rank 0 serves the other processes
  std::vector<uint16_t> more_ports = {};   ///< alternatives, in this order, if another program uses that one
  std::string job;                         ///< the same in all processes of this job alone; "": not known
};

/// Value of an environment variable; none where it is not set, or empty.
using Lookup = std::function<std::optional<std::string>(const std::string&)>;

/// The launch from the environment: RANK and similar variables (torchrun), OMPI_COMM_WORLD_* (Open MPI's
/// mpirun) or SLURM_* (srun). None where this process was started alone. An Error names a variable that makes
/// no sense.
std::optional<Launched> launched(const Lookup&);
/// The launch of this process.
std::optional<Launched> launched();

/// "node01" of "node[01-04,07],gpu3", as SLURM writes lists of hosts.
std::string first_host(const std::string& list);
/// The number of tasks of one node in "2(x3),1", as SLURM writes tasks by node.
std::optional<int64_t> tasks_of_node(const std::string& list, int64_t node);
}  // namespace optrush
