// SPDX-License-Identifier: Apache-2.0
// A control of the header checks: a function that is not inline, so that two units define it.
#pragma once
int twice(int x) { return 2 * x; }
