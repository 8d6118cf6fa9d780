# Plays the tests of pyverbs and says how each has ended, a line of JSON for each test.
#
#   outcomes.py FOLDER --dev DEVICE --gid ROW MODULE...
#
# FOLDER holds the package "tests" as Debian's python3-pyverbs has it.
import json
import sys
import unittest

folder = sys.argv.pop(1)
sys.path[:0] = [folder, folder + '/tests']
from args_parser import parser  # of the package: takes its options and leaves the rest

parser.parse_args()


class Outcomes(unittest.TestResult):
    def say(self, test, how, why=''):
        print('\n' + json.dumps({'Test': test.id(), 'How': how, 'Why': str(why)}), flush=True)

    def addSuccess(self, test):
        self.say(test, 'ok')

    def addSkip(self, test, reason):
        self.say(test, 'skipped', reason)

    def addFailure(self, test, err):
        self.say(test, 'failed', err[1])

    def addError(self, test, err):
        self.say(test, 'failed', err[1])

    def addSubTest(self, test, subtest, err):
        if err:
            self.say(test, 'failed', err[1])


unittest.defaultTestLoader.loadTestsFromNames(sys.argv[1:]).run(Outcomes())
