1 2.0 'reading-17|machine press-4 |reading temperature:71.4 pressure:2.1 |alarms oil door
-1 |machine press-7 |reading temperature:64.9
-1 |machine press-4 |reading temperature:66 pressure:2.4 |alarms door
