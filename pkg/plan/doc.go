// Package plan is the contract between the control plane and the machine: what a Windows machine must look like
// (Plan), how it is handed over (Envelope), what the machine says of itself (HostFacts) and how far it has come
// (Report, Entry).
//
// A Plan is data only. It is computed by pkg/planner, checked by Validate on both sides, identified by Digest and
// applied by pkg/agent; whatever is secret travels in the Envelope beside it and never enters the plan or its digest.
// Parse accepts every version of the plan format that was ever written.
//
// The package imports the standard library only, since the agent on the machine carries it.
package plan
