// Package step makes a machine equal to a plan, one step of plan.Steps at a time, and takes back what an earlier plan made.
//
// Each step is Check, Apply and Check again: Apply may be killed anywhere and run again, and changes nothing when the step
// is in sync. Before the first change of an object the step writes an Owned into the Ledger: that the object is the
// agent's, and what was there before. Remove goes by the ledger alone, so that afterwards the machine is as it was:
//   - what did not exist is deleted; an environment variable, a firewall rule or a file that existed gets its old value
//     back (files are moved to the backup folder, with their access control list, and moved back);
//   - a service that existed is never touched: the step fails with ErrForeign;
//   - a folder with Purge belongs to the product whole: what an earlier installation left in it is deleted before it is
//     first used and again with it; a folder that existed is left, empty if it has Purge;
//   - Windows features stay enabled, since turning one off takes a reboot and other software may use it by then.
//
// Everything waits by the machine's injected clock, within bounds. The package imports plan, system, disk and the standard
// library; it knows nothing of journals, codes or the control plane.
package step
