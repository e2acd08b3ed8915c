// SPDX-License-Identifier: Apache-2.0
// Files that are whole or absent.
#pragma once

#include <string>

namespace char_gpt {

/// Throws usage_error where `path` cannot become a file.
void check_writable(std::string const& path);

/// Writes all of `contents` or nothing: what was at `path` stays until the new file is whole.
void write_file(std::string const& path, std::string const& contents);

}  // namespace char_gpt
