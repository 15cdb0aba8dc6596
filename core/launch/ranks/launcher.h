#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace optrush {
/// The place of this process in a job that a launcher has started.
struct Launched {
  std::string launcher;  ///< torchrun, mpirun or srun
  int64_t rank = 0, size = 1;
  int64_t local_rank = 0, local_size = 1;  ///< within this machine
  std::string address;                     ///< address of rank 0's machine
  uint16_t port = 0;                       ///< port at which rank 0 listens
  std::vector<uint16_t> more_ports = {};   ///< alternatives, in order, if that port is in use
  std::string job;                         ///< identifies the job; "": not known
};

/// The value of an environment variable; none if it is empty or not set.
using Lookup = std::function<std::optional<std::string>(const std::string&)>;

/// Reads the launch from the environment: RANK and similar variables (torchrun), OMPI_COMM_WORLD_* (Open
/// MPI's mpirun) or SLURM_* (srun). None if this process was started alone. Throws an Error that names an
/// invalid variable.
std::optional<Launched> launched(const Lookup&);
/// The launch of this process.
std::optional<Launched> launched();

/// The first host of a list in SLURM's form: "node01" for "node[01-04,07],gpu3".
std::string first_host(const std::string& list);
/// The number of tasks of a node in SLURM's form "2(x3),1".
std::optional<int64_t> tasks_of_node(const std::string& list, int64_t node);
}  // namespace optrush
