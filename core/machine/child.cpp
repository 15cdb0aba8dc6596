#include "machine/child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "optrush/error.h"

namespace optrush {
std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

pid_t start_with_parent(std::vector<std::string> words, const std::filesystem::path& log) {
  const std::vector<char*> argv = pointers_to(words);
  const int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  volatile int problem = in < 0 || out < 0 ? errno : 0;
  // vfork as in posix_spawn(), which does not support PR_SET_PDEATHSIG. fork() would copy page tables.
  const pid_t child = problem != 0 ? -1 : vfork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execve(argv.front(), argv.data(), environ);
    problem = errno;
    _exit(127);
  }
  if (child < 0 && problem == 0) problem = errno;
  if (in >= 0) close(in);
  if (out >= 0) close(out);
  if (problem == 0) return child;
  if (child > 0) waitpid(child, nullptr, 0);
  throw Error(ErrorCode::file_access, "can't start " + words.front() + ": " + std::strerror(problem));
}
}  // namespace optrush
