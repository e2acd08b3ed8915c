// SPDX-License-Identifier: Apache-2.0
// The first of the two units.
#include <loft/twice.hpp>
int main() { return twice(0); }
