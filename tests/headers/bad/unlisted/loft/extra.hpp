// SPDX-License-Identifier: Apache-2.0
// A control of the level check: a header that the table does not know.
#pragma once
