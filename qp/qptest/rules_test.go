package qptest

// Which test holds which rule of the protocol reference. A rule without a test is a gap; the
// compiler sees to it that the tests exist.

import "testing"

var rules = []struct {
	section string
	rule    string
	tests   []func(*testing.T)
}{
	// The oracle looks at every packet.
	{"1.2", "source ports 0xc000 and above, one per connection", tests(TestWorlds)},
	{"1.6", "RNR timer codes", tests(TestRNRTimers, TestRNRTimerZero)},
	{"1.6", "reserved syndromes are ignored", tests(TestReservedSyndromes)},
	{"1.8", "GRH of IPv4 and IPv6", tests(TestDatagram)},
	{"1.10", "P_Key: low 15 bits", tests(TestFilters, TestAccepted)},
	{"1.11", "Q_Key, bit 31", tests(TestQKey, TestGSI)},
	{"1.1, 1.2", "hop limit, traffic class, flow label, source port", tests(TestAddressVector, TestSourcePort)},
	{"1.12", "source address of a connection", tests(TestAddresses)},
	{"1.13", "every filter, its counter, no effect", tests(TestFilters, TestStateFilter, TestSynthesisedHead)},
	{"2.7", "order of opcodes: every pair", tests(TestOpcodeOrder, TestUCDrops, TestUCCutOff)},
	{"2.8", "which packets take a receive", tests(TestReceiveCompletions, TestRNRResponder)},
	{"4.1", "PSN arithmetic around the wrap, windows of the circle", tests(TestPSNWrap, TestPSNRegions, TestNAKOnce)},
	{"4.1", "a READ takes the PSNs of its replies", tests(TestReadTakesPSNs)},
	{"4.2", "MSN", tests(TestMSN)},
	{"4.3", "AckReq at the end of a message and of the window", tests(TestAckReq, TestAckOnlyWhenAsked, TestWindow, TestLongPath)},
	{"4.4", "ACKs coalesce; partial messages", tests(TestAckCoalesced)},
	{"4.4", "implied NAK, implied ACK", tests(TestReadImpliesAck)},
	{"4.4", "NAK 60H: resume in the middle, same bytes", tests(TestSequenceNAK, TestNAKStorm)},
	{"4.4", "NAK 61H, 62H, 63H", tests(TestFatalNAKs, TestBothSidesOfRefusal)},
	{"4.4", "ghost ACKs and responses to nothing", tests(TestGhosts)},
	{"4.4", "READ restart: request and what may answer it", tests(TestReadRestart)},
	{"4.4", "missing READ replies are asked for again alone", tests(TestMissingReplies, TestMissingRepliesLostAgain,
		TestMissingRepliesGoBack, TestEarlyReplies)},
	{"4.4", "READ replies of wrong length or kind", tests(TestReadReplyErrors)},
	{"4.5", "one NAK for a gap", tests(TestNAKOnce, TestNAKAgain, TestBatchedGap)},
	{"4.5", "duplicate SEND and WRITE", tests(TestDuplicateSend, TestDuplicateWrite)},
	{"4.5", "duplicate READ: whole, restart, sub-range, mismatch", tests(TestDuplicateRead)},
	{"4.5", "duplicate atomic: never twice, unknown dropped", tests(TestDuplicateAtomic)},
	{"4.6", "order of answers", tests(TestReadThenSend)},
	{"4.6", "depth as responder and initiator", tests(TestDepth, TestReplayKeepsDepth, TestRdAtomicLimit, TestReadDepthZero)},
	{"4.7", "ack timeout, exact; exhaustion; timeout 0", tests(TestTimeoutRetries, TestTimeoutZero, TestTimerRestarts, TestProbe,
		TestManyTimers)},
	{"4.7", "the retry counter reloads", tests(TestRetryCounterReloads)},
	{"4.7", "what counts as a retry, and what as a loss", tests(TestReportsAreOneRetry, TestEarlyReplies, TestLostTwice, TestSlowPeer,
		TestPeerSleepsAgain, TestProbeAnswered, TestProbeBehind)},
	{"4.7", "the round trip is known early", tests(TestFirstAsks, TestFirstLost)},
	{"4.7", "RNR retries: wait, exhaustion, for ever", tests(TestRNRTimers, TestRNRRetries, TestRNRWaits)},
	{"5.1", "every transition with every attribute", tests(TestTransitions, TestAttributeValues, TestPSNMasked, TestQuery,
		TestQueryEverywhere)},
	{"5.2", "posting and processing by state", tests(TestPosting, TestPassive, TestStateFilter)},
	{"5.3", "flush: order, later posts, RESET forgets", tests(TestFlushOrder, TestReset, TestLocalErrors, TestDestroy, TestEndMidway)},
	{"5.2", "SQD drains", tests(TestDrain, TestDrainUnreliable)},
	{"5.4", "events", tests(TestCommEst, TestDrain, TestOverrun, TestRefusals)},
	{"6.1", "what can be posted where", tests(TestPostErrors, TestPostMany)},
	{"6.1", "segmentation at every MTU, scatter and gather", tests(TestSegmentation, TestScatterGather, TestUCMessages)},
	{"6.1", "unsignaled, sq_sig_all, solicited, inline, fence", tests(TestUnsignaled, TestSQSigAll, TestSolicited, TestInline, TestFence)},
	{"6.1", "bad local memory", tests(TestLocalErrors, TestUCLocalError)},
	{"6.2", "order of the responder's checks", tests(TestOrderOfChecks)},
	{"6.3", "the error table: NAK, statuses, states, events", tests(TestRefusals, TestBothSidesOfRefusal)},
	{"6.3", "completion queue overrun", tests(TestOverrun, TestNothingBehindOverrun, TestFullQueueIsNoOverrun, TestResizeCQ)},
	{"6.4", "UC: gaps, drops, receives used again", tests(TestUCGap, TestUCGapInWrite, TestUCCutOff, TestUCDrops)},
	{"6.4", "UD: too long, no receive", tests(TestDatagramTooLong, TestDatagramPSN, TestAddressHandles)},
	{"6.5", "receive completions", tests(TestReceiveCompletions, TestDatagram, TestSharedQueue)},
	{"7.3", "length 0", tests(TestZeroLength)},
	{"7.4", "atomics: alignment, wrap, byte order", tests(TestFetchAddWraps, TestDuplicateAtomic, TestRefusals)},
	{"7.5", "windows, LOCAL_INV, SEND_WITH_INV", tests(TestWindowAccess, TestBindErrors, TestLocalInvalidate, TestLocalAmongRetries,
		TestLocalInvalidateErrors, TestRemoteInvalidate, TestRemoteInvalidateErrors, TestSendWithInvOnWire, TestDeregisteredUnderRead,
		TestDeregisteredUnderWrite)},
	{"–", "selective repeat, by agreement", tests(TestSelectiveOne, TestSelectiveAck, TestSelectiveTwoHoles, TestSelectiveLostAgain,
		TestSelectiveLostNAK, TestSelectiveWindow, TestSelectiveTail, TestSelectiveDuplicates, TestSelectiveRNR, TestSelectiveReads,
		TestSelectiveTooFar, TestSelectiveGoBack, TestSelectiveBadReports, TestSelectiveMemoryGone, TestSelectiveRetries,
		TestSelectiveOff, TestLongWindow, TestLongWindowAlone, TestLongDepth)},
	{"1.7, 10", "marks, CNPs, rate", tests(TestCNP, TestRate, TestRateOfReplies, TestMarks, TestBottleneck)},
	{"8.2", "multicast", tests(TestMulticast)},
	{"12.1", "notification: any, solicited, moderated", tests(TestArming, TestModeration, TestUnmoderated, TestModeratedEnd)},
	{"–", "engine contract: spurious calls, fairness, no allocations", tests(TestSpuriousCalls, TestFairness, TestNoAllocations,
		TestCQSizes, TestCreateQP)},
}

func tests(t ...func(*testing.T)) []func(*testing.T) { return t }

// TestRules prints the table with -v.
func TestRules(t *testing.T) {
	for _, r := range rules {
		if len(r.tests) == 0 {
			t.Errorf("%s %s: no test", r.section, r.rule)
		}
		t.Logf("%-5s %s: %d tests", r.section, r.rule, len(r.tests))
	}
}
