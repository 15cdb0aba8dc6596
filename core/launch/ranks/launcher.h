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
  std::vector<uint16_t> ports;             ///< rank 0 listens at the first that is free
  std::string job;                         ///< identifies the job; "": not known
};

/// The value of an environment variable; none if it is empty or not set.
using Lookup = std::function<std::optional<std::string>(const std::string&)>;

/// Reads the launch from the variables of torchrun (RANK ...), Open MPI's mpirun (OMPI_COMM_WORLD_*) or srun
/// (SLURM_*). None if this process was started alone. Throws an Error that names an invalid variable.
std::optional<Launched> launched(const Lookup&);
std::optional<Launched> launched();

/// The first host of a list in SLURM's form: "node01" for "node[01-04,07],gpu3".
std::string first_host(const std::string& list);
/// The number of tasks of a node in SLURM's form "2(x3),1".
std::optional<int64_t> tasks_of_node(const std::string& list, int64_t node);
}  // namespace optrush
