// SPDX-License-Identifier: Apache-2.0
// A control of the header checks: a header that needs <cstdint> and does not say so.
#pragma once
inline std::uint32_t one() { return 1; }
