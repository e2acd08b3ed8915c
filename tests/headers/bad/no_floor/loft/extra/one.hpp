// SPDX-License-Identifier: Apache-2.0
// A control of the floors: a header in a folder that is no floor.
#pragma once
