// SPDX-License-Identifier: Apache-2.0
// The precompiled header belongs to this file; the other targets reuse it.
