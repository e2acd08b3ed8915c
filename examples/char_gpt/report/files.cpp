// SPDX-License-Identifier: Apache-2.0
// Files that are whole or absent: they are written beside their place and then renamed.
#include "char_gpt/report/files.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "char_gpt/support/errors.hpp"

namespace char_gpt {
namespace {

std::filesystem::path temporary_for(std::string const& path) { return path + ".partial-" + std::to_string(getpid()); }

}  // namespace

void check_writable(std::string const& path) {
  std::error_code ignored;
  auto const kind = std::filesystem::status(path, ignored).type();
  if (kind != std::filesystem::file_type::not_found && kind != std::filesystem::file_type::regular)
    throw usage_error{"cannot write '" + path + "': it is not a plain file"};
  auto const temporary = temporary_for(path);
  errno = 0;
  std::ofstream const file{temporary};
  if (!file) throw usage_error{"cannot write '" + path + "': " + std::strerror(errno)};
  std::filesystem::remove(temporary, ignored);
}

void write_file(std::string const& path, std::string const& contents) {
  auto const temporary = temporary_for(path);
  std::error_code error;
  std::ofstream file{temporary, std::ios::binary};
  file << contents;
  file.close();
  if (file) std::filesystem::rename(temporary, path, error);
  if (file && !error) return;
  std::filesystem::remove(temporary, error);
  throw std::runtime_error{"cannot write '" + path + "'"};
}

}  // namespace char_gpt
