// Package agent is the engine on the machine: it accepts plans (Accept), makes the machine equal to the accepted one (Run
// once, Loop for ever), says how far it has come (Report, Follow) and what the machine is like (Facts), takes in payload
// blobs (Receive) and leaves no trace when it goes (Remove).
//
// What it keeps lies in plan.AgentRoot, readable by SYSTEM and Administrators only:
//
//	plan.json          the accepted plan with host and generation; written whole by Accept, by rename
//	secrets-N.json     secrets of acceptance N that are not in place yet; deleted once they are
//	state.json         what the agent owns on the machine and how far it is; written whole by the engine, by rename
//	journal.jsonl      plan.Entry lines, appended by the engine; journal.1.jsonl is the part before the last rotation
//	blobs\sha256\…     payload blobs under their digests
//	staged.json        the digests of the last Receive, which the deletion of old blobs spares
//	tmp, old, backup   see package step
//	reserve            some bytes to give away when the disk is full, so that the journal can say so
//	lock, run.lock     held by a command that writes, and by the engine
//
// While it is being removed, C:\Windows\wmcb.removing says that C:\k is its own and goes as well. Of a C:\k that was there before, Remove gives
// back the class if it had one of the two; an access control list that is neither, such as an inherited one, stays closed to other users' writes.
//
// One engine runs at a time and is the only writer of journal and state; commands write plan.json and wake it. A run that
// was killed is not resumed: the next one checks everything again. The agent never reboots the machine.
//
// The package imports plan, payload, system, step, disk and the standard library; no client-go and nothing of any one
// operating system.
package agent
