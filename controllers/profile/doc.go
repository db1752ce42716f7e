// Package profile discovers the facts about the cluster for each WindowsNodeProfile, hands them to the other controllers through a
// facts.Store, and shows in the profile's status what was found and where. It is the only writer of both, and makes the profile
// "default" when there is none. It reads with pkg/facts/discover and never talks to a machine.
package profile
