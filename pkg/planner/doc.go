// Package planner computes the plan of a machine from facts: Build is a pure function of the cluster's facts, the
// machine's facts, the node's facts and the options, so that the same facts give the same bytes. Preflight says, as
// purely, why a machine cannot be made a node, all reasons at once.
//
// Cases with readable input and output are in test/cases. The package imports plan, facts, kubelet, cni and a TOML encoder;
// no client, no clock, no file, and not the payload either: what it needs of a manifest is Blob.
package planner
