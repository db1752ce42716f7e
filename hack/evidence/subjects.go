package main

import (
	"slices"

	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/test/windows"
)

// subject is a row of the table.
type subject struct {
	// name is what reports and tags call it, title what the table does.
	name, title string
}

// Subjects that no report of test/windows has: they take more than one machine by itself.
const (
	subjectUpload = "upload"
	subjectNode   = "node"
	subjectReboot = "reboot"
	subjectPod    = "pod"
)

// subjects are the rows in order.
func subjects() []subject {
	return []subject{
		{subjectUpload, "log in over SSH, upload, `receive`"},
		{windows.SubjectFacts, "facts"},
		{plan.StepCredentials, "`write-credentials`"},
		{windows.SubjectAccess, "access control lists of what is written"},
		{plan.StepEnvironment, "`set-environment`"},
		{plan.StepFeatures, "`enable-features`"},
		{plan.StepDirectories, "`make-directories`"},
		{plan.StepDefender, "`exclude-from-defender`"},
		{plan.StepFiles, "`install-files`"},
		{plan.StepCertificates, "`import-certificates`"},
		{plan.StepFirewall, "`open-firewall`"},
		{plan.StepNetwork, "`join-network`"},
		{plan.StepRoutes, "`set-routes`"},
		{windows.SubjectService, "`start-containerd`, `start-kubelet` and other services"},
		{windows.SubjectOrder, "services start in the order of their dependencies"},
		{windows.SubjectRecovery, "a service that dies is started again"},
		{subjectNode, "certificates, Node, lease: Ready"},
		{subjectReboot, "reboot and loss of power"},
		{subjectPod, "a pod runs and has a network"},
	}
}

func known(name string) bool {
	return slices.ContainsFunc(subjects(), func(s subject) bool { return s.name == name })
}
